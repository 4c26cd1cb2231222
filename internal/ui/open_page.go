package ui

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// openBody is the form that opens files.
type openBody struct{}

func (openBody) main(page) g.Node {
	return g.Group{
		h.H1(g.Text("Open a file")),
		h.P(
			g.Text("Choose a file of "), h.Code(g.Text("purser dump")), g.Text(" or "), h.Code(g.Text("purser record")),
			g.Text(", or the output of "), h.Code(g.Text("kubectl get -o yaml")),
			g.Text(". It is read by this program alone, and is sent nowhere else."),
		),
		h.Form(
			h.Class("drop"), h.ID("drop"), h.Method("post"), h.Action("/open"), h.EncType("multipart/form-data"),
			h.P(
				h.Label(h.For("file"), g.Text("Dump or record")), g.Text(" "),
				h.Input(h.ID("file"), h.Name("file"), h.Type("file"), h.Multiple(), h.Required()),
			),
			h.P(
				h.Button(h.Type("submit"), g.Text("Open")), g.Text(" "),
				spanOf("hint", "or drop files on any page"),
			),
		),
	}
}
