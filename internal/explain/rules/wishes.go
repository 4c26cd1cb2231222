package explain

import (
	"cmp"
	"slices"
	"strings"
)

// RefusedWishes returns the last wish that the API server refused about each object that is well, in one
// namespace, or in all if it is empty: the oldest first. One wish is given once, for the first object by its
// name: the template of a StatefulSet and its claims tell of the same.
func (c *Cluster) RefusedWishes(namespace string) (wishes []Finding) {
	var about []Ref
	for ref, w := range c.index.workloads {
		if w.set == nil {
			continue
		}
		if wish := c.templateWish(ref); wish != nil {
			about = append(about, ref, wish.Cause)
		}
	}
	for ref := range c.index.refusals {
		if !slices.Contains(about, ref) {
			about = append(about, ref)
		}
	}
	slices.SortFunc(about, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(rankOfWish(a), rankOfWish(b)), strings.Compare(a.String(), b.String()))
	})
	for _, ref := range about {
		if namespace != "" && ref.Namespace != namespace {
			continue
		}
		report := c.Explain(ref)
		if report.Refused == nil || slices.ContainsFunc(wishes, func(f Finding) bool {
			return isSameCause(f, *report.Refused) || f.Reason == report.Refused.Reason && c.isOfSet(ref, f.Object)
		}) {
			continue
		}
		wishes = append(wishes, *report.Refused)
	}
	slices.SortStableFunc(wishes, func(a, b Finding) int { return compareTimes(a.Since, b.Since) })
	return wishes
}

// rankOfWish puts workloads before the claims that are made of their templates.
func rankOfWish(ref Ref) int {
	if ref.Kind.isWorkload() {
		return 0
	}
	return 1
}

// isOfSet reports whether a claim is made of a template of the StatefulSet.
func (c *Cluster) isOfSet(ref, set Ref) bool {
	if ref.Kind != Claim || set.Kind != StatefulSet {
		return false
	}
	w, _ := c.setOf(ref.key())
	return w != nil && w.ref == set
}
