package ui

import (
	"fmt"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// main returns the main part of the map.
func (b mapBody) main(p page) g.Node {
	isPart := b.Query != "" || b.Node != "" || b.Loose
	return g.Group{
		titleOf(p, g.Text(p.Title)),
		banners(p),
		g.If(isPart && !p.Report, h.P(h.A(h.Href("map"), g.Text("The whole map")))),
		b.content(p),
	}
}

func (b mapBody) content(p page) g.Node {
	switch {
	case b.Query != "":
		return b.hits()
	case b.Node != "":
		return b.nodeContent()
	case b.Loose:
		return g.Group{h.Ul(h.Class("tree"), g.Map(b.Claims, claimItem)), more(b.More, "claims")}
	}
	return g.Group{
		section("nodes", g.Text("Zones and nodes"), b.zones(p), b.looseLink(p)),
		section("pools", g.Text("Capacity"), b.pools()),
	}
}

// hits are the objects that a search has found.
func (b mapBody) hits() g.Node {
	text := "No name, handle or label has this text in it."
	if len(b.Found) > 0 {
		text = counted(len(b.Found), "object", "objects")
		if b.MoreHits != 0 {
			text += ", and " + strconv.Itoa(b.MoreHits) + " more"
		}
		text += "."
	}
	return g.Group{
		h.P(h.Role("status"), g.Text(text)),
		h.Ul(h.Class("objects"), g.Map(b.Found, func(f found) g.Node {
			return h.Li(refLink(f.Ref), g.Text(" "), spanOf("is", "by its "+f.By), stuckMark(f.Stuck))
		})),
	}
}

// nodeContent has the pods of a node that have volumes.
func (b mapBody) nodeContent() g.Node {
	pods := paragraph("No pod of this node has a volume.")
	if len(b.Pods) > 0 {
		pods = h.Ul(h.Class("tree"), g.Map(b.Pods, func(pod podView) g.Node {
			return h.Li(
				refLink(pod.Ref), g.Text(" "), spanOf("is", pod.Phase), stuckMark(pod.Stuck),
				h.Ul(g.Map(pod.Claims, claimItem)),
			)
		}))
	}
	return g.Group{
		h.P(refLink(explain.Ref{Kind: explain.Node, Name: b.Node})),
		pods,
		more(b.More, "pods"),
	}
}

// claimItem is a claim with its volume, its snapshots and its copies.
func claimItem(c claimView) g.Node {
	about := c.Phase
	if c.Size != "" {
		about += ", " + c.Size
	}
	if c.Class != "" {
		about += ", class " + c.Class
	}
	return h.Li(refLink(c.Ref), g.Text(" "), spanOf("is", about), stuckMark(c.Stuck), c.copies())
}

func (c claimView) copies() g.Node {
	if c.Volume == nil {
		return nil
	}
	item := func(prefix string) func(explain.Ref) g.Node {
		return func(ref explain.Ref) g.Node { return h.Li(g.Text(prefix), refLink(ref)) }
	}
	return h.Ul(
		h.Li(refLink(*c.Volume), g.If(c.Handle != "", g.Group{g.Text(" "), spanOf("is", "handle "+c.Handle)})),
		g.Map(c.Snapshots, item("snapshot ")), g.Map(c.Clones, item("copied to ")),
	)
}

// zones are the nodes by their zones. Those of a few zones are shown at once.
func (b mapBody) zones(p page) g.Node {
	const mostOpen = 8
	if len(b.Zones) == 0 {
		return paragraph("No nodes were read.")
	}
	return g.Map(b.Zones, func(z zoneView) g.Node {
		title, label := "Without a zone", "Nodes of no zone"
		if z.Name != "" {
			title, label = "Zone "+z.Name, "Nodes of zone "+z.Name
		}
		about := fmt.Sprintf("%s, %s with volumes, %s", counted(len(z.Nodes), "node", "nodes"),
			counted(z.Pods, "pod", "pods"), counted(z.Volumes, "attachment", "attachments"))
		return h.Details(
			h.Class("zone"), h.ID(z.ID), g.If(len(b.Zones) <= mostOpen, g.Attr("open")),
			h.Summary(h.Strong(g.Text(title)), g.Text(" "), spanOf("meta", about)),
			scrolled(
				label,
				g.Group{
					column("Node"), column("State"), numberColumn("Pods with volumes"), numberColumn("Attachments"),
					column("Limits"), numberColumn("Stuck"),
				},
				g.Map(z.Nodes, func(n nodeView) g.Node { return n.row(p) }),
			),
		)
	})
}

func (n nodeView) row(p page) g.Node {
	name, state, stuck := g.Text(n.Name), g.Text("ready"), g.Text("0")
	if !p.Report {
		name = linkTo("map", "node", n.Name, name)
	}
	if !n.Ready {
		state = wrong("not ready")
	}
	if n.Stuck != 0 {
		stuck = wrong(strconv.Itoa(n.Stuck))
	}
	var limits []string
	for _, l := range n.Limits {
		limits = append(limits, fmt.Sprintf("%s: %d of %d", l.Driver, l.Used, l.Most))
	}
	return h.Tr(
		rowHead(name), h.Td(state), numberCell(number(n.Pods)), numberCell(number(n.Volumes)),
		cell(strings.Join(limits, ", ")), numberCell(stuck),
	)
}

// looseLink leads to the claims without a pod.
func (b mapBody) looseLink(p page) g.Node {
	if b.LooseCount == 0 {
		return nil
	}
	text := g.Text(counted(b.LooseCount, "claim", "claims") + " without a pod")
	if !p.Report {
		text = linkTo("map", "loose", "1", text)
	}
	return h.P(text)
}

// pools are the published capacities.
func (b mapBody) pools() g.Node {
	if len(b.Pools) == 0 {
		return paragraph("No driver publishes its capacity.")
	}
	return g.Group{
		scrolled(
			"Capacity by class and segment",
			g.Group{
				column("Class"), column("Segment"), column("Used"), numberColumn("Volumes"),
				numberColumn("In volumes"), numberColumn("Free"), numberColumn("Largest"),
			},
			g.Map(b.Pools, poolView.row),
		),
		more(b.MorePools, "segments"),
	}
}

func (p poolView) row() g.Node {
	largest := "-"
	if p.Most != 0 {
		largest = sizeText(p.Most)
	}
	return h.Tr(
		rowHead(g.Text(p.Class)), cell(p.Segment), h.Td(p.meter(), g.Text(" "+percentOf(p.Share()))),
		numberCell(number(p.Volumes)), numberCell(g.Text(sizeText(p.Used))), numberCell(g.Text(sizeText(p.Free))),
		numberCell(g.Text(largest)),
	)
}

// meter draws the used part.
func (p poolView) meter() g.Node {
	return h.SVG(
		h.Class("meter"), h.Width("120"), h.Height("14"), h.Role("img"), h.Aria("label", percentOf(p.Share())+" used"),
		g.El("rect", h.Class("track"), h.Width("100%"), h.Height("14")),
		g.El("rect", h.Class("part"), h.Width(strconv.Itoa(p.Bar())+"%"), h.Height("14")),
	)
}
