package ui

import (
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// main returns the main part of the page of numbers.
func (n *numbers) main(p page) g.Node {
	return g.Group{
		titleOf(p, g.Text("Numbers")),
		banners(p),
		section("operations", g.Text("Operations"), n.operations()),
		section("waiting", g.Text("Waits by reason"), n.waits(p)),
		section("calls", g.Text("Calls to drivers"), n.calls()),
		g.Iff(n.Rates != nil, func() g.Node { return n.Rates.section() }),
		section("slow", g.Text("Slowest volumes"), n.slowest()),
	}
}

func perSecond(rate float64) g.Node { return numberCell(g.Textf("%.2f", rate)) }

// operations are the operations that have ended, over time.
func (n *numbers) operations() g.Node {
	switch {
	case len(n.Operations) == 0 && n.From.IsZero():
		return paragraph("A dump has the objects of one time. Operations over time are known from a record or " +
			"a live cluster.")
	case len(n.Operations) == 0:
		return paragraph("No operation has ended since " + clock(n.From) + ".")
	}
	return g.Group{
		paragraph("From " + clock(n.From) + " to " + clock(n.To) + "."),
		scrolled(
			"Operations",
			g.Group{
				column("Operation"), numberColumn("In all"), numberColumn("Per second"),
				numberColumn("Peak per second"), column("Over time"),
			},
			g.Map(n.Operations, func(o operationView) g.Node {
				return h.Tr(
					rowHead(g.Text(o.Name)), numberCell(number(o.Total)), perSecond(o.Second), perSecond(o.Peak),
					h.Td(o.sparkline()),
				)
			}),
		),
	}
}

// sparkline draws how often the operation ended in each part of the time.
func (o operationView) sparkline() g.Node {
	return h.SVG(
		h.Class("spark"), h.Width("240"), h.Height("40"), g.Attr("viewBox", "0 0 100 40"),
		g.Attr("preserveAspectRatio", "none"), h.Role("img"), h.Aria("label", o.Name+" over time"),
		g.Map(o.Parts, func(part part) g.Node {
			if part.Height == 0 {
				return nil
			}
			return rect(fmt.Sprint(part.X), fmt.Sprint(part.Y), fmt.Sprint(part.Width), fmt.Sprint(part.Height))
		}),
	)
}

func rect(x, y, width, height string) g.Node {
	return g.El("rect", g.Attr("x", x), g.Attr("y", y), h.Width(width), h.Height(height))
}

// waits are the reasons for which objects wait.
func (n *numbers) waits(p page) g.Node {
	if len(n.Waits) == 0 {
		return paragraph("No object waits.")
	}
	return scrolled(
		"Waits by reason",
		g.Group{column("Reason"), column("Who acts"), numberColumn("Objects"), numberColumn("Oldest")},
		g.Map(n.Waits, func(w waitView) g.Node {
			actor := string(w.Actor)
			if w.Normal {
				actor = "no one"
			}
			return h.Tr(
				rowHead(reasonTag(w.Reason)), cell(actor), numberCell(number(w.Objects)),
				numberCell(g.Text(age(p.Time, w.Oldest))),
			)
		}),
	)
}

// calls are the calls to drivers, by RPC and code.
func (n *numbers) calls() g.Node {
	if len(n.Calls) == 0 {
		return h.P(
			g.Text("No calls are known. "), h.Code(g.Text("--role-endpoint")),
			g.Text(" reads them from a role that has "), h.Code(g.Text("--purser-life")), g.Text("."),
		)
	}
	return scrolled(
		"Calls to drivers by RPC and code",
		g.Group{
			column("RPC"), column("Code"), numberColumn("Calls"), numberColumn("Half within"),
			numberColumn("90 % within"), numberColumn("Longest"),
		},
		g.Map(n.Calls, func(c callView) g.Node {
			code := g.Text(c.Code)
			if c.Code != "OK" {
				code = wrong(c.Code)
			}
			return h.Tr(
				rowHead(g.Text(c.Name)), h.Td(code), numberCell(number(c.Count)), numberCell(g.Text(took(c.Half))),
				numberCell(g.Text(took(c.Most90))), numberCell(g.Text(took(c.Most))),
			)
		}),
	)
}

// section has the metrics of the roles.
func (r *Rates) section() g.Node {
	return section(
		"metrics", g.Text("Metrics of the roles"),
		paragraph("In the last "+took(r.Span())+", as the dashboard has them."),
		scrolled(
			"Calls by method and code",
			g.Group{
				column("Method"), column("Code"), numberColumn("Per second"), numberColumn("Half within"),
				numberColumn("99 % within"),
			},
			g.Map(r.Calls(), func(c rateView) g.Node {
				return h.Tr(
					rowHead(g.Text(c.Name)), cell(c.Code), perSecond(c.Second), numberCell(g.Text(took(c.Half))),
					numberCell(g.Text(took(c.Most))),
				)
			}),
			h.Caption(g.Text("Calls to drivers")),
		),
		scrolled(
			"Decisions by reason",
			g.Group{column("Reason"), numberColumn("Per second")},
			g.Map(r.Decisions(), func(d rateView) g.Node {
				return h.Tr(rowHead(g.Text(d.Name)), perSecond(d.Second))
			}),
			h.Caption(g.Text("Decisions")),
		),
	)
}

// slowest are the claims that took the longest.
func (n *numbers) slowest() g.Node {
	if len(n.Slowest) == 0 {
		return paragraph("No claim was bound at a known time.")
	}
	return scrolled(
		"Slowest volumes",
		g.Group{column("Claim"), column("Class"), numberColumn("Until bound"), column("Counted from")},
		g.Map(n.Slowest, func(s slowView) g.Node {
			return h.Tr(
				rowHead(refLink(s.Claim)), cell(s.Class),
				numberCell(g.Text(took(s.Took)), g.If(s.Open, g.Group{g.Text(" "), wrong("so far")})),
				cell(s.Since+", "+clock(s.From)),
			)
		}),
	)
}

// percentOf is a share as a text.
func percentOf(share int) string { return strconv.Itoa(share) + " %" }
