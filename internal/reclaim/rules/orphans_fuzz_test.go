package reclaim

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// FuzzCompare: an orphan is listed twice and known never, and no request in the journal makes the
// number less than nothing.
func FuzzCompare(f *testing.F) {
	f.Add("a b", "a c", "b", "x")
	f.Add("", "  ", "", "")
	f.Fuzz(func(t *testing.T, before, now, known, unresolved string) {
		view := func(listed string) OrphanView {
			v := OrphanView{Listed: strings.Split(listed, " "), Known: map[string]bool{}, Unresolved: map[types.UID]bool{}}
			for handle := range strings.FieldsSeq(known) {
				v.Known[handle] = true
			}
			for claim := range strings.FieldsSeq(unresolved) {
				v.Unresolved[types.UID(claim)] = true
			}
			return v
		}
		first, second := view(before), view(now)
		_, suspects := CompareOrphans(Suspects{}, first)
		found, _ := CompareOrphans(suspects, second)
		for _, handle := range found.Unknown {
			if handle == "" || second.Known[handle] || !slices.Contains(first.Listed, handle) || !slices.Contains(second.Listed, handle) {
				t.Errorf("%q is called unknown", handle)
			}
		}
		if n := found.Orphans(); n < 0 || n > len(found.Unknown) {
			t.Errorf("%d orphans of %d", n, len(found.Unknown))
		}
	})
}
