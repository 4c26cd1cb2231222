package ui

import (
	"fmt"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// main returns the main part of the page of an object.
func (b lifeBody) main(p page) g.Node {
	return g.Group{
		titleOf(p, g.Text(b.Object.Kind.Short()+"/"+b.Object.Name), inNamespace(b.Object)),
		banners(p),
		section("now", g.Group{g.Text("Now: "), stateTag(b.Report.State)}, answer(b.Report, p.Time)),
		g.Map(b.Lives, lifeView.section),
		g.Iff(b.Slider != nil, b.asItWas),
		g.Iff(b.Tree != nil, func() g.Node { return section("around", g.Text("Objects around it"), tree(b.Tree)) }),
	}
}

// stateTag is the state of an object.
func stateTag(state explain.State) g.Node {
	switch state {
	case explain.Stuck:
		return spanOf("state stuck", "stuck")
	case explain.Well:
		return spanOf("state well", "well")
	default:
		return spanOf("state unknown", "not known")
	}
}

// answer is what explain says about an object.
func answer(r explain.Report, now time.Time) g.Node {
	text := sentence(r.Summary)
	if r.Next != "" {
		text += " " + sentence(r.Next)
	}
	return g.Group{
		paragraph(text),
		g.Map(r.Findings, func(f explain.Finding) g.Node { return findingList(f, now) }),
		g.Iff(r.Refused != nil, func() g.Node {
			return g.Group{h.H3(g.Text("A change was refused")), findingList(*r.Refused, now)}
		}),
		g.Iff(len(r.Users) > 0, func() g.Node {
			return g.Group{h.H3(g.Text("Used by")), objectList(r.Users, userItem)}
		}),
	}
}

func userItem(u explain.Use) g.Node {
	return h.Li(refLink(u.Object), g.If(u.Waits != "", g.Text(": waits for "+u.Waits)))
}

// tree is an object with those that depend on it.
func tree(root *explain.Branch) g.Node { return h.Ul(h.Class("tree"), branch(*root)) }

func branch(b explain.Branch) g.Node {
	return h.Li(
		refLink(b.Object), g.Text(" "), spanOf("is", b.State),
		g.If(b.Age != "", g.Group{g.Text(" "), spanOf("age", b.Age)}),
		g.If(b.Wrong != "", g.Group{h.Br(), wrong("Stuck:"), g.Text(" " + b.Wrong)}),
		g.If(len(b.Children) > 0, h.Ul(g.Map(b.Children, branch))),
	)
}

// asItWas chooses an earlier time, and shows the object at that time.
func (b lifeBody) asItWas() g.Node {
	chosen, part := "now", g.Node(nil)
	if b.At != nil {
		chosen, part = moment(b.At.Time), b.At.main(page{})
	}
	s := b.Slider
	return section(
		"was", g.Text("As it was"),
		h.Form(
			h.Class("slider"), h.Method("get"), h.Action("life"), h.Data("from", machineTime(s.From)),
			hiddenInput("kind", b.Object.Kind.Short()),
			g.If(b.Object.Namespace != "", hiddenInput("namespace", b.Object.Namespace)),
			hiddenInput("name", b.Object.Name),
			h.Label(h.For("after"), g.Text("Time, from "+clock(s.From)+" to "+clock(s.To))), g.Text(" "),
			h.Input(
				h.ID("after"), h.Name("after"), h.Type("range"), h.Min("0"), h.Max(fmt.Sprint(s.Seconds)),
				h.Step("any"), h.Value(fmt.Sprint(s.Value)),
			), g.Text(" "),
			g.El("output", h.For("after"), h.ID("aftertext"), g.Text(chosen)), g.Text(" "),
			h.Button(h.Type("submit"), g.Text("Show")),
		),
		h.Div(h.ID("atpart"), h.Aria("live", "polite"), part),
	)
}

func hiddenInput(name, value string) g.Node {
	return h.Input(h.Type("hidden"), h.Name(name), h.Value(value))
}

// main returns an object as it was at a time.
func (b *atBody) main(page) g.Node {
	return g.Group{
		h.H3(g.Text("At "+moment(b.Time)+": "), stateTag(b.Report.State)),
		answer(b.Report, b.Time),
		g.Iff(b.Tree != nil, func() g.Node { return tree(b.Tree) }),
	}
}
