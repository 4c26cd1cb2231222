package reclaim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestCompare(t *testing.T) {
	type known = map[string]bool
	type claims = map[types.UID]bool
	for _, tc := range []struct {
		name    string
		before  OrphanView
		now     OrphanView
		want    Found
		orphans int
	}{
		{"nothing", OrphanView{}, OrphanView{}, Found{}, 0},
		{"all known", OrphanView{Listed: []string{"a"}}, OrphanView{Listed: []string{"a"}, Known: known{"a": true}}, Found{}, 0},
		{"unknown once: may be on its way", OrphanView{}, OrphanView{Listed: []string{"b", "a"}}, Found{}, 0},
		{"unknown twice", OrphanView{Listed: []string{"a", "b"}}, OrphanView{Listed: []string{"b", "a"}}, Found{Unknown: []string{"a", "b"}}, 2},
		{"gone by now", OrphanView{Listed: []string{"a"}}, OrphanView{}, Found{}, 0},
		{"a handle without a name is none", OrphanView{Listed: []string{""}}, OrphanView{Listed: []string{""}}, Found{}, 0},
		{
			"a volume of a request in the journal is no orphan",
			OrphanView{Listed: []string{"a"}, Unresolved: claims{"x": true}},
			OrphanView{Listed: []string{"a"}, Unresolved: claims{"x": true}},
			Found{Unknown: []string{"a"}, Unresolved: 1},
			0,
		},
		{
			"one request excuses one volume",
			OrphanView{Listed: []string{"a", "b"}, Unresolved: claims{"x": true}},
			OrphanView{Listed: []string{"a", "b"}, Unresolved: claims{"x": true}},
			Found{Unknown: []string{"a", "b"}, Unresolved: 1},
			1,
		},
		{
			"a request that is new cannot have made an old volume, nor can one that is resolved",
			OrphanView{Listed: []string{"a"}, Unresolved: claims{"x": true}},
			OrphanView{Listed: []string{"a"}, Unresolved: claims{"y": true}},
			Found{Unknown: []string{"a"}},
			1,
		},
		{
			"more requests than volumes",
			OrphanView{Unresolved: claims{"x": true}},
			OrphanView{Unresolved: claims{"x": true}},
			Found{Unresolved: 1},
			0,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, suspects := CompareOrphans(Suspects{}, tc.before)
			found, _ := CompareOrphans(suspects, tc.now)
			if diff := cmp.Diff(tc.want, found); diff != "" {
				t.Error(diff)
			}
			if got := found.Orphans(); got != tc.orphans {
				t.Errorf("%d orphans, want %d", got, tc.orphans)
			}
		})
	}
}
