package ui

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// doctype is the first line of a document.
const doctype = "<!DOCTYPE html>\n"

// document is a whole page as a server sends it.
func document(p page) g.Node {
	return g.Group{g.Raw(doctype), h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.TitleEl(g.Text(p.Title+" – Purser")),
			viewport(), colorScheme(),
			h.Link(h.Rel("stylesheet"), h.Href("app.css")),
			h.Link(h.Rel("icon"), h.Href("icon.svg"), h.Type("image/svg+xml")),
			h.Script(h.Src("app.js"), h.Defer()),
		),
		h.Body(documentBody(p, p.Body.main(p))),
	)}
}

func viewport() g.Node {
	return h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1"))
}

func colorScheme() g.Node { return h.Meta(h.Name("color-scheme"), h.Content("light dark")) }

// documentBody is a page between its header and its footer.
func documentBody(p page, main g.Node) g.Node {
	return g.Group{
		h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to the content")),
		h.Header(brand(p), navigation(p), searchForm(p)),
		h.Main(h.ID("main"), h.TabIndex("-1"), g.If(p.Live, g.Attr("data-live")), main),
		footer(p),
	}
}

func brand(p page) g.Node {
	name := h.Strong(g.Text("Purser"))
	if !p.Report {
		name = h.A(h.Href("/board"), name)
	}
	return h.P(h.Class("brand"), name, g.Text(" "), h.Span(h.Class("source"), g.Text(p.Source)))
}

func navigation(p page) g.Node {
	if p.Single {
		return nil
	}
	item := func(nav, address, title string) g.Node {
		return h.Li(h.A(h.Href(address), g.If(p.Nav == nav, h.Aria("current", "page")), g.Text(title)))
	}
	return h.Nav(h.Aria("label", "Pages"), h.Ul(
		item("board", "board", "Board"), item("map", "map", "Map"), item("numbers", "numbers", "Numbers"),
		g.If(p.CanAdd, item("open", "/open", "Open a file")),
	))
}

func searchForm(p page) g.Node {
	if p.Report {
		return nil
	}
	return h.Form(
		h.Class("search"), h.Role("search"), h.Action("map"), h.Method("get"),
		h.Label(h.For("q"), h.Class("hidden"), g.Text("Search names, handles and labels")), g.Text(" "),
		h.Input(
			h.ID("q"), h.Name("q"), h.Type("search"), h.Value(p.Query), h.Placeholder("Name, handle or label"),
			h.AutoComplete("off"), g.Attr("spellcheck", "false"),
		), g.Text(" "),
		h.Button(h.Type("submit"), g.Text("Search")),
	)
}

func footer(p page) g.Node {
	key := func(name string) g.Node { return h.Kbd(g.Text(name)) }
	return h.Footer(
		h.P(
			g.Text("Read-only."),
			g.If(p.Report, g.Group{g.Text(" A report of "), h.Code(g.Text("purser report")), g.Text(".")}),
			g.Text(" On the time axis: arrow keys go from interval to interval, "), key("+"), g.Text(" and "), key("-"),
			g.Text(" zoom, "), key("["), g.Text(" and "), key("]"), g.Text(" move, "), key("0"),
			g.Text(" shows the whole life."),
		),
		h.P(h.ID("said"), h.Role("status"), h.Aria("live", "polite")),
	)
}
