package ui

import (
	"net/url"
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// linkTo is a link to a page with one parameter in its address, which is encoded.
func linkTo(page, key, value string, children ...g.Node) g.Node {
	return h.A(h.Href(page+"?"+key+"="+url.QueryEscape(value)), g.Group(children))
}

func number(n int) g.Node { return g.Text(strconv.Itoa(n)) }

// spanOf is a text with a class.
func spanOf(class, text string) g.Node { return h.Span(h.Class(class), g.Text(text)) }

// wrong is a text about what needs attention.
func wrong(text string) g.Node { return h.Strong(h.Class("wrong"), g.Text(text)) }

// stuckMark says of an object that it is stuck.
func stuckMark(isStuck bool) g.Node { return g.If(isStuck, g.Group{g.Text(" "), wrong("stuck")}) }

// paragraph is a paragraph of one text.
func paragraph(text string) g.Node { return h.P(g.Text(text)) }

// machineTime is a time for the script.
func machineTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// asOf says of which time a page is.
func asOf(p page) g.Node {
	words := g.Group{g.Text("As of")}
	if p.Live {
		words = g.Group{h.Span(h.Class("dot"), h.Aria("hidden", "true")), g.Text("Live, as of")}
	}
	return h.P(h.Class("asof"), words, g.Text(" "), h.Time(h.DateTime(machineTime(p.Time)), g.Text(clock(p.Time))))
}

// titleOf is the heading of a page, with its time.
func titleOf(p page, heading ...g.Node) g.Node {
	return h.Div(h.Class("title"), h.H1(heading...), asOf(p))
}

// banners say what of the source is missing.
func banners(p page) g.Node {
	const mostOpen = 3 // more are folded
	var all g.Group
	switch n := len(p.Unread); {
	case n > mostOpen:
		all = append(all, banner(h.Details(
			h.ID("unread"),
			h.Summary(
				h.Strong(g.Text("Not all was read:")), g.Text(" "), number(n),
				g.Text(" kinds are missing or not complete."),
			),
			sentences(p.Unread),
		)))
	case n > 0:
		all = append(all, banner(h.Strong(g.Text("Not all was read.")), sentences(p.Unread)))
	}
	if len(p.Notes) > 0 {
		all = append(all, banner(h.Strong(g.Text("About the source:")), sentences(p.Notes)))
	}
	return all
}

func banner(children ...g.Node) g.Node {
	return h.Div(h.Class("banner"), h.Role("note"), g.Group(children))
}

func sentences(texts []string) g.Node {
	return h.Ul(g.Map(texts, func(text string) g.Node { return h.Li(g.Text(sentence(text))) }))
}

// refLink is the name of an object, with a link to its page if it has one.
func refLink(ref explain.Ref) g.Node {
	named := g.Text(ref.Kind.Short() + "/" + ref.Name)
	if hasPage(ref.Kind) && ref.Name != "" {
		named = h.A(h.Href(addressOf(ref)), named)
	}
	return g.Group{named, inNamespace(ref)}
}

func inNamespace(ref explain.Ref) g.Node {
	return g.If(ref.Namespace != "", g.Group{g.Text(" "), spanOf("ns", "in "+ref.Namespace)})
}

// reasonTag is a reason, with a link to its page if it has one.
func reasonTag(reason verdict.Reason) g.Node {
	if !verdict.IsDocumented(reason) {
		return spanOf("reason", string(reason))
	}
	address := "reason?name=" + url.QueryEscape(string(reason))
	return h.A(h.Class("reason"), h.Href(address), g.Text(string(reason)))
}

// section is a part of a page that its heading names.
func section(id string, heading g.Node, children ...g.Node) g.Node {
	return h.Section(h.Aria("labelledby", id), h.H2(h.ID(id), heading), g.Group(children))
}

// column is the head of a column of texts.
func column(title string) g.Node { return h.Th(h.Scope("col"), g.Text(title)) }

// numberColumn is the head of a column of numbers.
func numberColumn(title string) g.Node { return h.Th(h.Scope("col"), h.Class("n"), g.Text(title)) }

// rowHead is the first cell of a row.
func rowHead(children ...g.Node) g.Node { return h.Th(h.Scope("row"), g.Group(children)) }

// cell is a cell of text.
func cell(text string) g.Node { return h.Td(g.Text(text)) }

// numberCell is a cell of a number, which is at its right.
func numberCell(children ...g.Node) g.Node { return h.Td(h.Class("n"), g.Group(children)) }

// scrolled is a table that scrolls on a narrow screen. label is for readers of the screen; options
// are attributes of the table, and its caption.
func scrolled(label string, columns, rows g.Group, options ...g.Node) g.Node {
	return h.Div(
		h.Class("scroll"), h.TabIndex("0"), h.Role("region"), h.Aria("label", label),
		h.Table(g.Group(options), h.THead(h.Tr(columns)), h.TBody(rows)),
	)
}

// more says how many are not shown.
func more(n int, noun string) g.Node {
	return g.Iff(n != 0, func() g.Node { return paragraph("and " + strconv.Itoa(n) + " more " + noun) })
}
