package ui

import (
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// main returns the main part of the board.
func (b boardBody) main(p page) g.Node {
	return g.Group{
		titleOf(p, g.Text("What is stuck")),
		banners(p),
		b.summary(p),
		g.Iff(!p.Report, b.filterForm),
		g.Iff(len(b.Board.Causes) > 0, func() g.Node { return b.counts(p) }),
		g.Map(b.Board.ByActor(), func(of actorGroup) g.Node { return b.actorSection(p, of) }),
		b.waits(p),
		b.refused(p),
	}
}

// summary says in one sentence whether something is stuck.
func (b boardBody) summary(p page) g.Node {
	var text g.Group
	switch {
	case len(b.Board.Causes) > 0:
		text = g.Group{
			h.Strong(g.Text(counted(b.Board.Stuck(), "object is", "objects are") + " stuck")),
			g.Text(", for " + counted(len(b.Board.Causes), "cause", "causes") + "."),
		}
	case b.Board.Unknown:
		text = g.Group{
			h.Strong(g.Text("Cannot tell")), g.Text(" whether something is stuck: not all was read."),
		}
	default:
		among := "."
		if b.Filtered {
			among = " among the chosen objects."
		} else if len(p.Unread) > 0 {
			among = ", as far as could be read."
		}
		text = g.Group{h.Strong(g.Text("Nothing is stuck")), g.Text(among)}
	}
	if len(b.Board.Waits) > 0 {
		they := "they"
		if b.Board.Normal() == 1 {
			they = "it"
		}
		waits := counted(b.Board.Normal(), "object waits", "objects wait")
		text = append(text, g.Text(" "+waits+" as "+they+" should."))
	}
	return h.P(h.Class("summary"), h.ID("summary"), text)
}

// filterForm chooses the objects that are shown.
func (b boardBody) filterForm() g.Node {
	return h.Form(
		h.Class("filter"), h.Method("get"), h.Action("board"), h.Aria("label", "Choose objects"),
		g.Map(b.Choices, choiceSelect),
		h.P(
			h.Button(h.Type("submit"), g.Text("Choose")),
			g.If(b.Filtered, g.Group{g.Text(" "), h.A(h.Href("board"), g.Text("Show all"))}),
		),
	)
}

func choiceSelect(c choice) g.Node {
	if len(c.Values) == 0 {
		return nil
	}
	return h.P(
		h.Label(h.For("f-"+c.Key), g.Text(c.Title)), g.Text(" "),
		h.Select(
			h.ID("f-"+c.Key), h.Name(c.Key), h.Option(h.Value(""), g.Text("all")),
			g.Map(c.Values, func(value string) g.Node {
				return h.Option(g.If(value == c.Chosen, h.Selected()), g.Text(value))
			}),
		),
	)
}

// counts has the stuck objects by who acts, and by the properties that the filter has.
func (b boardBody) counts(p page) g.Node {
	return section(
		"counts", g.Text("Counts"),
		h.Div(
			h.Class("tallies"),
			h.Table(
				h.Caption(g.Text("Who acts")),
				h.TBody(g.Map(b.Board.ByActor(), func(of actorGroup) g.Node {
					name := h.A(h.Href("#"+of.ID), g.Text(string(of.Actor)))
					return h.Tr(rowHead(name), numberCell(number(of.Objects)))
				})),
			),
			g.Map(b.Board.Tallies(), func(t tally) g.Node { return tallyTable(p, t) }),
		),
	)
}

func tallyTable(p page, t tally) g.Node {
	return h.Table(
		h.Caption(g.Text(t.Title)),
		h.TBody(g.Map(t.Rows, func(row tallyRow) g.Node {
			name := g.Text(row.Name)
			if !p.Report {
				name = linkTo("board", t.Key, row.Name, name)
			}
			return h.Tr(rowHead(name), numberCell(number(row.Objects)))
		})),
	)
}

// countedHeading is a heading with a number of objects.
func countedHeading(text string, n int) g.Node {
	return g.Group{g.Text(text + " "), spanOf("count", counted(n, "object", "objects"))}
}

// notShown says how many more there are, with a noun and an end of the sentence.
func notShown(n int, one, more, end string) g.Node {
	return g.If(n != 0, paragraph("and "+counted(n, one, more)+end))
}

// actorSection has the causes that one actor has to mend.
func (b boardBody) actorSection(p page, of actorGroup) g.Node {
	return section(
		of.ID, countedHeading(actorTitle(of.Actor), of.Objects),
		g.Map(of.Causes, func(c cause) g.Node { return b.causeDetails(p, c) }),
		notShown(of.More, "more cause", "more causes",
			": choose a class, a driver, a node or a namespace to see them."),
	)
}

// waits are the objects that wait as they should.
func (b boardBody) waits(p page) g.Node {
	if len(b.Board.Waits) == 0 {
		return nil
	}
	return section(
		"waits", countedHeading("Waits as they should be", b.Board.Normal()),
		g.Map(b.Board.Shown(), func(c cause) g.Node { return b.causeDetails(p, c) }),
		notShown(b.Board.MoreWaits(), "more wait", "more waits", "."),
	)
}

// refused are the changes that the API server refused.
func (b boardBody) refused(p page) g.Node {
	if len(b.Board.Refused) == 0 {
		return nil
	}
	return section(
		"refused", countedHeading("Changes that were refused", len(b.Board.Refused)),
		paragraph("These objects are well; the API server refused what was asked for them."),
		g.Map(b.Board.ShownRefused(), func(f explain.Finding) g.Node {
			return h.Details(
				h.Class("cause"),
				h.Summary(causeTitle(f), g.Text(" "), spanOf("age", age(p.Time, f.Since))),
				h.P(refLink(f.Object)),
				findingList(f, p.Time),
			)
		}),
		notShown(b.Board.MoreRefused(), "more change", "more changes", "."),
	)
}

// causeTitle is the reason of a finding, and what its object waits for.
func causeTitle(f explain.Finding) g.Node {
	return h.Span(h.Class("what"), h.Strong(g.Text(string(f.Reason))), g.Text(" "+f.WaitsFor))
}

// causeDetails is one cause with the objects that wait for it.
func (b boardBody) causeDetails(p page, c cause) g.Node {
	class := "cause"
	if c.Normal {
		class = "cause normal"
	}
	title := c.Finding
	title.Reason = c.Reason
	return h.Details(
		h.Class(class), h.ID(c.ID), g.If(b.Cause == c.ID, g.Attr("open")),
		h.Summary(causeTitle(title), g.Text(" "), h.Span(
			h.Class("meta"), spanOf("n", counted(len(c.Objects), "object", "objects")), g.Text(" "),
			spanOf("age", age(p.Time, c.Oldest)),
		)),
		findingList(c.Finding, p.Time),
		h.H3(g.Text("Objects that wait for it")),
		objectList(c.Objects, func(ref explain.Ref) g.Node { return h.Li(refLink(ref)) }),
		g.Iff(!p.Report, func() g.Node { return h.P(linkTo("board", "cause", c.ID, g.Text("This cause alone"))) }),
	)
}

// objectList is a list of objects, not longer than a page shows.
func objectList[T any](all []T, item func(T) g.Node) g.Node {
	shown := firstOf(mostNamed, all)
	hidden := len(all) - len(shown)
	return h.Ul(
		h.Class("objects"), g.Map(shown, item),
		g.If(hidden > 0, h.Li(g.Text("and "+strconv.Itoa(hidden)+" more"))),
	)
}
