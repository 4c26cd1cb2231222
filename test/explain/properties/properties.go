package properties

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	rules "github.com/purser-csi/purser/internal/explain/rules"
)

// mostLinks is more than any chain has.
const mostLinks = 20

// Of returns what does not hold of the answers about each object of a cluster, and about what is stuck.
func Of(c *rules.Cluster) (all []string) {
	known := refsOf(c)
	for ref := range known {
		if slices.Contains(rules.Explainable, ref.Kind) && ref.Name != "" {
			all = append(all, Report(c.Explain(ref), known, c.Now)...)
		}
	}
	for _, report := range c.Stuck("") {
		all = append(all, Report(report, known, c.Now)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Known are the objects that exist.
type Known map[rules.Ref]bool

// refsOf returns the objects of a cluster.
func refsOf(c *rules.Cluster) Known {
	known := Known{}
	for _, o := range c.Objects() {
		known[o.Ref] = true
	}
	for _, o := range c.Quotas {
		known[rules.Ref{Kind: rules.Quota, Namespace: o.Namespace, Name: o.Name}] = true
	}
	for _, o := range c.LimitRanges {
		known[rules.Ref{Kind: rules.LimitRange, Namespace: o.Namespace, Name: o.Name}] = true
	}
	for _, o := range c.Capacities {
		known[rules.Ref{Kind: rules.Capacity, Namespace: o.Namespace, Name: o.Name}] = true
	}
	for _, event := range c.Events { // it may be about an object of a kind that is not read
		of := event.InvolvedObject
		ref := rules.Ref{Kind: rules.Kind(of.Kind), Namespace: of.Namespace, Name: of.Name}
		known[ref] = known[ref] || !isRead(ref.Kind)
	}
	for kind := range c.Unread { // what was not read may exist
		known[rules.Ref{Kind: kind}] = true
	}
	for kind := range c.NoneInDump {
		known[rules.Ref{Kind: kind}] = true
	}
	return known
}

// isRead reports whether explain reads objects of a kind.
func isRead(kind rules.Kind) bool {
	return slices.Contains(rules.Explainable, kind) ||
		slices.Contains([]rules.Kind{rules.Quota, rules.LimitRange, rules.Capacity}, kind)
}

// has reports whether an object exists, or may exist.
func (k Known) has(ref rules.Ref) bool { return k[ref] || k[rules.Ref{Kind: ref.Kind}] }

// Report returns what does not hold of an answer at a time.
func Report(r rules.Report, known Known, now time.Time) (all []string) {
	findings := slices.Clone(r.Findings)
	if r.Refused != nil {
		findings = append(findings, *r.Refused)
	}
	given := map[string]bool{}
	for _, f := range findings {
		cause := fmt.Sprint(f.Reason, f.Cause, f.WaitsFor)
		if given[cause] {
			all = append(all, fmt.Sprintf("%s: %s is given twice", r.Object, f.Reason))
		}
		given[cause] = true
		for _, text := range slices.Concat(chain(f), noOne(f, now), named(f, known)) {
			all = append(all, fmt.Sprintf("%s: %s: %s", r.Object, f.Reason, text))
		}
	}
	return all
}

// chain checks that a chain begins with the object, ends, and passes none twice.
func chain(f rules.Finding) (all []string) {
	passed := map[rules.Ref]bool{}
	for _, link := range f.Chain {
		if passed[link.Object] || link.WaitsFor == "" {
			all = append(all, fmt.Sprintf("the chain passes %s twice, or with nothing to wait for", link.Object))
		}
		passed[link.Object] = true
	}
	switch {
	case len(f.Chain) > 0 && f.Chain[0].Object != f.Object:
		all = append(all, fmt.Sprintf("the chain begins with %s", f.Chain[0].Object))
	case len(f.Chain) > mostLinks:
		all = append(all, "the chain does not end")
	}
	return all
}

// noOne checks that a step goes on by itself only for a time that is still to come.
func noOne(f rules.Finding, now time.Time) []string {
	switch {
	case f.Actor != rules.Itself:
	case f.Until == nil:
		return []string{"it goes on by itself, and it is not said until when"}
	case !f.Until.After(now):
		return []string{"it should have gone on by itself by " + f.Until.String()}
	}
	return nil
}

// absence are the words in which an answer says that an object is not there. The API server refused another;
// and a source in another namespace, which no grant allows, is not looked at.
var absence = regexp.MustCompile(`absent|no such|not there|(does|did|do) not exist|not found|\bmissing\b|\bgone\b|` +
	`there (is|are) no|no longer exists|was deleted|none (found|of)|not created|refuse|isn't allowed|is not supported`)

// named checks that each object of a finding exists, or is said not to.
func named(f rules.Finding, known Known) (all []string) {
	texts := []string{f.WaitsFor, f.Words}
	for _, link := range f.Chain {
		texts = append(texts, link.WaitsFor)
	}
	said := slices.ContainsFunc(texts, absence.MatchString)
	check := func(ref rules.Ref, what, text string) {
		if ref.Name != "" && !known.has(ref) && !said && !absence.MatchString(text) && ref != f.Object {
			all = append(all, fmt.Sprintf("the %s %s does not exist, which is not said: %s", what, ref, strings.Join(texts, "; ")))
		}
	}
	var evidence strings.Builder
	for _, e := range f.Evidence {
		text := e.Field + " " + e.Value
		if !known.has(e.Object) && absence.MatchString(text) {
			fmt.Fprintf(&evidence, " %s: %s", e.Object, text)
		}
		check(e.Object, "evidence", text)
	}
	check(f.Cause, "cause", evidence.String())
	for _, link := range f.Chain {
		check(link.Object, "link", evidence.String())
	}
	return all
}
