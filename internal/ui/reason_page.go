package ui

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// main returns the main part of the page of a reason.
func (b reasonBody) main(p page) g.Node {
	return g.Group{
		h.H1(g.Text(string(b.Name))),
		g.Map(b.Paragraphs, paragraph),
		g.If(b.Event != "", h.P(g.Text("Its event is "), h.Code(g.Text(b.Event)), g.Text("."))),
		g.Iff(!p.Report, backToBoard),
	}
}

func backToBoard() g.Node { return h.P(h.A(h.Href("board"), g.Text("Back to the board"))) }

// errorBody says why there is no page.
type errorBody string

func (b errorBody) main(p page) g.Node {
	return g.Group{h.H1(g.Text(p.Title)), paragraph(string(b)), backToBoard()}
}
