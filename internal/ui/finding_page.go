package ui

import (
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// findingList is what an object waits for, why, and what to do.
func findingList(f explain.Finding, now time.Time) g.Node {
	return h.Dl(
		h.Class("finding"),
		h.Dt(g.Text("It waits for")), h.Dd(chain(f), g.Text(sentence(f.WaitsFor)), quote(f)),
		h.Dt(g.Text("Why")), h.Dd(evidence(f)),
		h.Dt(g.Text("What to do")), h.Dd(fix(f)),
		h.Dt(g.Text("Who")),
		h.Dd(
			g.Text(who(f)+". Reason: "), reasonTag(f.Reason),
			g.If(f.Since != nil, g.Group{g.Text(", for "), spanOf("age", age(now, f.Since))}),
		),
	)
}

func chain(f explain.Finding) g.Node {
	return g.If(len(f.Chain) > 0, h.Ol(h.Class("chain"), g.Map(f.Chain, func(link explain.Link) g.Node {
		return h.Li(refLink(link.Object), g.Text(" waits for "+link.WaitsFor))
	})))
}

// quote has the words of the controller's decision.
func quote(f explain.Finding) g.Node {
	if f.Words == "" {
		return nil
	}
	source := "its log"
	if f.Event != "" {
		source = "the event " + f.Event
	}
	return h.BlockQuote(
		paragraph(f.Words),
		h.Footer(
			g.Text(source),
			g.If(f.Decision != "", g.Group{g.Text(", decided for "), reasonTag(f.Decision)}),
		),
	)
}

func evidence(f explain.Finding) g.Node {
	if len(f.Evidence) == 0 {
		return g.Text("No field shows it.")
	}
	return scrolled(
		"Evidence", g.Group{column("Object"), column("Field"), column("Value"), column("Expected")},
		g.Map(f.Evidence, func(e explain.Evidence) g.Node {
			return h.Tr(h.Td(refLink(e.Object)), h.Td(h.Code(g.Text(e.Field))), cell(e.Value), cell(e.Wanted))
		}),
		h.Class("evidence"),
	)
}

func fix(f explain.Finding) g.Node {
	if len(f.Fix) == 0 {
		return g.Text("Nothing.")
	}
	return h.Ol(h.Class("fix"), g.Map(f.Fix, func(step explain.Step) g.Node {
		return h.Li(
			g.Text(sentence(step.Text)), command(string(step.Command)),
			g.If(step.Risk != "", h.P(
				h.Class("risk"), h.Strong(g.Text("Risk:")), g.Text(" "+sentence(step.Risk)),
			)),
		)
	}))
}

// command is a command that can be copied; nothing without one.
func command(line string) g.Node {
	return g.If(line != "", h.Div(
		h.Class("command"), h.Code(g.Text(line)), g.Text(" "),
		h.Button(
			h.Type("button"), h.Class("copy"), h.Data("copy", line), g.Text("Copy"),
			spanOf("hidden", " the command "+line),
		),
	))
}
