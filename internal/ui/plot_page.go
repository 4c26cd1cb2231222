package ui

import (
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// drawing is the plot of a life, with what moves its window. id is that of the life.
func (p plot) drawing(id string) g.Node {
	return h.Div(
		h.Class("plot"), h.Data("begin", machineTime(p.From)), h.Data("whole", p.millis(p.To)),
		h.Data("from", p.millis(p.ViewFrom)), h.Data("to", p.millis(p.ViewTo)),
		plotTools(),
		h.SVG(
			h.Width("100%"), h.Height(strconv.Itoa(p.Height)), h.Role("group"),
			h.Aria("label", "Lanes on an axis of time"),
			g.El("defs", hatchPattern(id)),
			p.ticks(),
			g.Map(p.Rows, func(row plotRow) g.Node { return lineOf("row", "0", "100%", strconv.Itoa(row.Line)) }),
			g.Map(p.Bars, func(b bar) g.Node { return b.drawing(id) }),
			g.El("g", h.Aria("hidden", "true"), g.Map(p.Rows, func(row plotRow) g.Node {
				return svgText(g.Text(row.Name), h.Class("lane"), g.Attr("x", "2"), g.Attr("y", strconv.Itoa(row.Text)))
			})),
			g.El("line", h.Class("cursor"), g.Attr("x1", "-1%"), g.Attr("x2", "-1%"), g.Attr("y1", "0"),
				g.Attr("y2", "100%")),
		),
		plotLegend(),
	)
}

func plotTools() g.Node {
	tool := func(do, title string) g.Node {
		return h.Button(h.Type("button"), h.Data("do", do), g.Text(title))
	}
	return h.Div(
		h.Class("tools"), h.Role("toolbar"), h.Aria("label", "Time axis"),
		tool("out", "Zoom out"), tool("in", "Zoom in"), tool("left", "Earlier"), tool("right", "Later"),
		tool("whole", "Whole life"), g.Text(" "), h.Span(h.Class("window")),
	)
}

func plotLegend() g.Node {
	item := func(class, text string) g.Node { return h.Li(h.Class(class), g.Text(text)) }
	return h.Ul(
		h.Class("legend"),
		item("working", "works"), item("waiting", "waits"), item("used", "no step is due"),
		item("unknown", "not known"), item("slow", "the slowest interval"),
	)
}

// hatchPattern is the pattern of the intervals of a life in which a party waits.
func hatchPattern(id string) g.Node {
	return g.El(
		"pattern", h.ID("hatch-"+id), h.Width("7"), h.Height("7"), g.Attr("patternUnits", "userSpaceOnUse"),
		g.Attr("patternTransform", "rotate(45)"),
		g.El("rect", h.Class("hatchline"), h.Width("2.5"), h.Height("7")),
	)
}

func svgText(text g.Node, attributes ...g.Node) g.Node {
	return g.El("text", g.Group(attributes), text)
}

// lineOf is a horizontal line.
func lineOf(class, x1, x2, y string) g.Node {
	return g.El("line", h.Class(class), g.Attr("x1", x1), g.Attr("x2", x2), g.Attr("y1", y), g.Attr("y2", y))
}

func (p plot) ticks() g.Node {
	return g.El("g", h.Class("ticks"), h.Aria("hidden", "true"), g.Map(p.Ticks, func(t tick) g.Node {
		return g.Group{
			g.El("line", g.Attr("x1", t.X), g.Attr("x2", t.X), g.Attr("y1", "16"), g.Attr("y2", "100%")),
			svgText(g.Text(t.Text), g.Attr("x", t.X), g.Attr("y", "12")),
		}
	}))
}

// drawing is a bar that leads to its row below the plot. life is the id of the life.
func (b bar) drawing(life string) g.Node {
	class := "bar " + b.Class
	if b.Slowest {
		class += " slow"
	}
	place := g.Group{
		g.Attr("x", b.X), h.Width(b.Width), g.Attr("y", strconv.Itoa(b.Y)), h.Height(strconv.Itoa(b.Height())),
	}
	return h.A(
		h.ID("bar-"+b.ID), h.Href("#"+b.ID), h.Class(class), h.Data("f", strconv.FormatInt(b.From, 10)),
		h.Data("t", strconv.FormatInt(b.To, 10)), h.Aria("label", b.Label),
		h.TitleEl(g.Text(b.Label)),
		g.El("rect", h.Class("fill"), place),
		g.If(b.Hatched, g.El("rect", h.Class("hatch"), g.Attr("fill", "url(#hatch-"+life+")"), place)),
		g.If(b.Name != "", h.SVG(
			h.Aria("hidden", "true"), place, svgText(g.Text(b.Name), g.Attr("x", "4"), g.Attr("y", "12")),
		)),
	)
}
