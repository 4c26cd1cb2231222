package ui

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// loginPage asks for a token. It has no text but the program's own.
func loginPage() g.Node {
	return g.Group{g.Raw("<!DOCTYPE html>\n"), h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")), h.TitleEl(g.Text("Token – Purser")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
		),
		h.Body(h.Main(
			h.H1(g.Text("Token")),
			h.P(g.Text("The pages are for users who may list volumes, pods and events in the whole cluster.")),
			h.Form(
				h.Method("post"), h.Action(pathLogin),
				h.P(h.Label(h.For("token"), g.Text("A token of the cluster, such as that of kubectl create token"))),
				h.P(
					h.Input(
						h.ID("token"), h.Name("token"), h.Type("password"), h.AutoComplete("off"), h.Required(),
					), g.Text(" "),
					h.Button(h.Type("submit"), g.Text("Open")),
				),
			),
		)),
	)}
}
