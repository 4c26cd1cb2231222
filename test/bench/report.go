package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/purser-csi/purser/test/e2e/audit"
)

var (
	provisioner = audit.ServiceAccount("purser-system", "csi-provisioner")
	binder      = audit.ServiceAccount("kube-system", "persistent-volume-binder")
)

// who are the users that the report is about, as it calls them. The rest of the cluster is not.
var who = []struct{ name, user string }{
	{"csi-provisioner", provisioner},
	{"persistent-volume-binder", binder},
	{"pvc-protection-controller", audit.ServiceAccount("kube-system", "pvc-protection-controller")},
	{"pv-protection-controller", audit.ServiceAccount("kube-system", "pv-protection-controller")},
}

// fault is nil when every claim had its volume and nothing is left of it. (That every claim was bound is waited for.)
func (r *result) fault() error {
	var errs []error
	if len(r.bound) != r.claims {
		errs = append(errs, fmt.Errorf("%d of %d claims were bound", len(r.bound), r.claims))
	}
	if r.left > 0 {
		errs = append(errs, fmt.Errorf("%d volumes are left on disk", r.left))
	}
	return errors.Join(errs...)
}

// report is for people: counts first, in 80 columns.
func (r *result) report() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("%d claims at once, and then given up. %d cores.\n", r.claims, r.cores)
	line("%-50s%14s%14s", "API requests per claim", "create", "delete")
	var totals [2]tallied
	for _, w := range who {
		line("%s", w.name)
		mine := [2]audit.Tally{r.create.api.By(w.user), r.remove.api.By(w.user)}
		for _, kind := range kinds(mine) {
			line("  %-48s%14s%14s", kind.Verb+" "+kind.Resource, r.per(mine[0][kind].All()), r.per(mine[1][kind].All()))
		}
		totals[0].add(mine[0])
		totals[1].add(mine[1])
	}
	line("all four")
	line("  %-48s%14s%14s", "writes", r.per(totals[0].writes), r.per(totals[1].writes))
	line("  %-48s%14s%14s", "reads", r.per(totals[0].reads), r.per(totals[1].reads))
	line("  %-48s%14s%14s", "events", r.per(totals[0].events), r.per(totals[1].events))
	ours := [2]audit.Tally{r.create.api.By(who[0].user), r.remove.api.By(who[0].user)}
	line("%-50s%14d%14d", "writes in vain of csi-provisioner, in all", vain(ours[0]), vain(ours[1]))
	for _, kind := range kinds(ours) {
		for _, code := range inVain {
			if n := [2]int{ours[0][kind][code], ours[1][kind][code]}; n != [2]int{} && kind.IsWrite() {
				line("  %-48s%14d%14d", fmt.Sprintf("%s %s: %d", kind.Verb, kind.Resource, code), n[0], n[1])
			}
		}
	}
	line("")

	line("%-50s%14s%14s", "CSI calls, in all", "create", "delete")
	methods := maps.Clone(r.create.calls)
	maps.Copy(methods, r.remove.calls)
	for _, m := range slices.Sorted(maps.Keys(methods)) {
		line("  %-48s%14d%14d", m, r.create.calls[m], r.remove.calls[m])
	}
	line("")
	line("%-36s%14s%14s%14s", "Rates", "here", "floor", "of the floor")
	out.WriteString(rate("claims Bound per second", r.claims, r.boundIn, r.floor.claims, r.floor.created))
	out.WriteString(rate("volumes deleted per second", r.claims, r.deletedIn, r.floor.claims, r.floor.deletedIn))
	line("time to Bound: half of the claims %.2f s, 99 of 100 %.2f s", r.quantile(50).Seconds(), r.quantile(99).Seconds())
	out.WriteString(r.pace.report())
	line("The floor is a client that only makes the 4 writes that each needs.\n")
	line("Memory of purser up %d MB, at most %d MB. Binary %d MB. Volumes left: %d.", r.memory.now>>20, r.memory.most>>20, r.binary>>20, r.left)
	return out.String()
}

// inVain are the answers to a write that changed nothing because the object was gone, or another by then.
var inVain = []int{http.StatusNotFound, http.StatusConflict}

func vain(t audit.Tally) int { return t.Where(audit.Request.IsWrite).Answered(inVain...) }

// tallied sums up one phase. Discovery and watches are not for a claim.
type tallied struct{ writes, reads, events int }

func (t *tallied) add(tally audit.Tally) {
	for _, kind := range kinds([2]audit.Tally{tally, {}}) {
		n := tally[kind].All()
		switch {
		case kind.IsEvent():
			t.events += n
		case kind.IsWrite():
			t.writes += n
		default:
			t.reads += n
		}
	}
}

// kinds are the requests that are made for claims, writes first.
func kinds(tallies [2]audit.Tally) []audit.Request {
	all := maps.Clone(tallies[0])
	maps.Copy(all, tallies[1])
	maps.DeleteFunc(all, func(r audit.Request, _ audit.Answers) bool { return r.Verb == "watch" || r.IsDiscovery() })
	return slices.SortedFunc(maps.Keys(all), func(a, b audit.Request) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
}

func rank(r audit.Request) int {
	switch {
	case r.IsEvent():
		return 2
	case r.IsWrite():
		return 0
	}
	return 1
}

// per is a number per claim.
func (r *result) per(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(n)/float64(r.claims))
}

func rate(name string, n int, in time.Duration, floorN int, floorIn time.Duration) string {
	here, floor := perSecond(n, in), perSecond(floorN, floorIn)
	return fmt.Sprintf("%-36s%14.1f%14.1f%14.2f\n", name, here, floor, here/floor)
}

// quantile of the times to Bound, in percent, by the nearest rank.
func (r *result) quantile(percent int) time.Duration {
	if len(r.bound) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.bound))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
