package ui

import (
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/purser-csi/purser/internal/life"
)

// section is one life: its facts, its drawing, its phases with their intervals, and all that
// happened.
func (v lifeView) section() g.Node {
	return h.Section(
		h.Class("life"), h.Aria("labelledby", v.ID),
		h.H2(h.ID(v.ID), g.Text("Life of "), refLink(v.Object)),
		v.facts(),
		g.Iff(v.Slowest != nil, v.slowest),
		v.Plot.drawing(v.ID),
		h.Div(h.Class("detail"), h.Aria("live", "polite")),
		g.Map(v.Phases, phaseView.part),
		g.Iff(len(v.LastMark) > 0, v.marks),
		g.Map(v.Unknown, func(text string) g.Node { return h.P(h.Class("note"), g.Text(sentence(text))) }),
	)
}

// fact is a name with its value; nothing for an empty value.
func fact(name, value string) g.Node {
	return g.If(value != "", h.Div(h.Dt(g.Text(name)), h.Dd(g.Text(value))))
}

// always is a name with its value, which may be empty.
func always(name, value string) g.Node { return h.Div(h.Dt(g.Text(name)), h.Dd(g.Text(value))) }

func (v lifeView) facts() g.Node {
	to := "now"
	if v.To != nil {
		to = moment(*v.To)
	}
	return h.Dl(
		h.Class("facts"),
		fact("Volume", v.Volume), fact("Handle", v.Handle), fact("Class", v.Class), fact("Driver", v.Driver),
		fact("From", moment(v.From)), fact("To", to), fact("Known", percentOf(v.Percent)+" of the time"),
	)
}

// slowest is the longest interval of the life.
func (v lifeView) slowest() g.Node {
	s := v.Slowest
	return h.P(
		h.Class("slowest"), h.Strong(g.Text("Slowest: "+took(s.Took()))),
		g.Text(" "+laneText(s.Lane)+": "+sentence(s.What)),
		g.If(s.Reason != "", g.Group{g.Text(" "), reasonTag(s.Reason)}),
	)
}

// part is a phase with its intervals.
func (p phaseView) part() g.Node {
	length := took(p.To.Sub(p.From))
	if p.Open {
		length += " so far"
	}
	return g.Group{
		h.H3(h.ID(p.ID), h.Class("phasehead"), g.Text(p.Name+" "), spanOf("count", length)),
		h.Ol(h.Class("intervals"), g.Map(p.Intervals, intervalView.item)),
	}
}

func (i intervalView) item() g.Node {
	class := "interval " + string(i.State)
	if i.Slowest {
		class += " slow"
	}
	return h.Li(h.Details(
		h.Class(class), h.ID(i.ID),
		h.Summary(
			spanOf("offset", i.Offset), g.Text(" "), spanOf("took", i.Took), g.Text(" "),
			spanOf("lanename", i.LaneText()), g.Text(" "),
			h.Span(
				h.Class("what"), g.If(i.Slowest, g.Group{h.Strong(g.Text("slowest")), g.Text(" ")}),
				g.Text(sentence(i.What)),
			),
		),
		h.Div(
			h.Class("inner"),
			paragraph(moment(i.From)+" to "+moment(i.To)+". The lane "+i.LaneText()+" "+i.StateText()+"."),
			g.Iff(i.Finding != nil, func() g.Node { return findingList(*i.Finding, i.To) }),
			g.Iff(i.Call != nil, func() g.Node { return callFacts(i.Call) }),
			g.Iff(i.Ends != nil, func() g.Node { return endOfInterval(i.Ends) }),
			g.Iff(i.Write != nil, i.Write.part),
		),
	))
}

// callFacts has the call to the driver that an interval is.
func callFacts(c *life.Call) g.Node {
	return g.Group{
		h.H4(g.Text("Call to the driver")),
		h.Dl(
			h.Class("facts"), always("RPC", c.Name), always("Code", c.Code), always("Took", took(c.To.Sub(c.From))),
			fact("Volume", c.Volume), fact("By", c.Role),
		),
	}
}

// endOfInterval is what ended an interval.
func endOfInterval(m *life.Mark) g.Node {
	when := moment(m.At)
	if m.Coarse {
		when += " (whole seconds)"
	}
	return g.Group{
		h.H4(g.Text("It ends with")),
		h.P(g.Text(when+": "+sentence(m.What)+" "), refLink(m.Object)),
	}
}

// marks are all that happened.
func (v lifeView) marks() g.Node {
	return h.Details(
		h.Class("marks"), h.Summary(g.Text("All that happened ("+strconv.Itoa(len(v.LastMark))+")")),
		h.Ol(g.Map(v.LastMark, func(m markView) g.Node {
			return h.Li(
				spanOf("offset", moment(m.At)), g.Text(" "), spanOf("lanename", string(m.Lane)),
				g.Text(" "+sentence(m.What)),
				g.Iff(m.Write != nil && len(m.Write.Fields) > 0, func() g.Node {
					return h.Details(h.Summary(g.Text("Its write")), m.Write.part())
				}),
			)
		})),
	)
}

// part is a write with the fields that it changed.
func (w *write) part() g.Node {
	text := g.Group{g.Text("Resource version " + w.Version)}
	for i, manager := range w.By {
		separator := ", "
		if i == 0 {
			separator = ", written by "
		}
		text = append(text, g.Text(separator), h.Code(g.Text(manager)))
	}
	return h.Div(
		h.Class("write"), h.P(text, g.Text(".")),
		g.Iff(len(w.Fields) > 0, func() g.Node { return g.Group{w.table(), more(w.More, "fields")} }),
	)
}

func (w *write) table() g.Node {
	return scrolled(
		"Fields that the write changed", g.Group{column("Field"), column("Before"), column("After")},
		g.Map(w.Fields, func(f fieldChange) g.Node {
			return h.Tr(
				h.Td(h.Code(g.Text(f.Path))), h.Td(g.If(f.Before != "", h.Del(g.Text(f.Before)))),
				h.Td(g.If(f.After != "", h.Ins(g.Text(f.After)))),
			)
		}),
		h.Class("diff"),
	)
}

// millis is a number of milliseconds for the script.
func (p plot) millis(at time.Time) string { return strconv.FormatInt(p.Millis(at), 10) }
