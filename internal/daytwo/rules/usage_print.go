package daytwo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Print prints the table, and what is missing in it.
func (r UsageReport) Print(p *Page) {
	if len(r.Claims) == 0 {
		p.Line(Plain, "No claims.")
	} else {
		r.table().print(p)
	}
	r.printSilent(p)
	for _, text := range r.Unread {
		p.Line(Warning, "Not read: %s", text)
	}
}

// printSilent names the nodes without an answer, those with the same reason in one line.
func (r UsageReport) printSilent(p *Page) {
	const mostNamed = 10
	byReason := map[string][]string{}
	for node, reason := range r.Silent {
		reason = strings.ReplaceAll(reason, node, "NODE")
		byReason[reason] = append(byReason[reason], node)
	}
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		nodes := slices.Sorted(slices.Values(byReason[reason]))
		named := strings.Join(nodes[:min(len(nodes), mostNamed)], ", ")
		if len(nodes) > mostNamed {
			named += fmt.Sprintf(" and %d more", len(nodes)-mostNamed)
		}
		p.Line(Warning, "No answer from the kubelet of %s (%s): %s", plural(len(nodes), "node"), named, reason)
	}
}

func (r UsageReport) table() *table {
	t := &table{head: []string{
		"NAMESPACE", "CLAIM", ">SIZE", ">USED", ">USE%", ">INODES", ">IUSE%", "NODE", "CLASS", "NOTE",
	}}
	for _, u := range r.Claims {
		note := u.Why
		if u.Source == "driver" {
			note = "allocated in the backend; not mounted"
		}
		if note != "" && u.UsedBytes == nil {
			note = "unknown: " + note
		}
		t.add(u.Level, u.Namespace, u.Claim, show(u.CapacityBytes, Bytes), show(u.UsedBytes, Bytes), share(u.Percent),
			show(u.Inodes, Count), share(u.InodePercent), orDash(strings.Join(u.Nodes, ",")), orDash(u.Class), note)
	}
	for _, row := range t.rows { // only the numbers are coloured
		for i := range row {
			if i < 3 || i > 6 {
				row[i].level = Plain
			}
		}
	}
	return t
}

func show(n *int64, text func(int64) string) string {
	if n == nil {
		return "-"
	}
	return text(*n)
}

func share(p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", *p)
}
