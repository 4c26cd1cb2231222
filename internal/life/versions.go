package life

import (
	"slices"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// VersionsOf returns the versions of the objects with a name, in the order in which they happened.
func (h *History) VersionsOf(ref explain.Ref) (all []Change) {
	var at []int
	for _, uid := range h.identities(ref.Kind, func(c Change) bool { return refOf(c) == ref }) {
		at = append(at, h.byUID[uid]...)
	}
	slices.Sort(at)
	for _, i := range at {
		all = append(all, h.Changes[i])
	}
	return all
}

// Newest returns the number of the last change of an object; -1 if there is none.
func (h *History) Newest(ref explain.Ref) int {
	all := h.byUID[h.named(ref)]
	if len(all) == 0 {
		return -1
	}
	return all[len(all)-1]
}
