package orphan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLook(t *testing.T) {
	for _, tc := range []struct {
		name     string
		before   Suspects
		listed   Listed
		known    Known
		orphans  []string
		suspects Suspects
	}{
		{"nothing", nil, nil, nil, nil, Suspects{}},
		{"all known", nil, Listed{"a"}, Known{"a": true}, nil, Suspects{}},
		{"unknown once: may be on its way", nil, Listed{"b", "a"}, Known{"a": true}, nil, Suspects{"b": true}},
		{"unknown twice", Suspects{"b": true, "a": true}, Listed{"b", "a"}, nil, []string{"a", "b"}, Suspects{"a": true, "b": true}},
		{"known by now", Suspects{"a": true}, Listed{"a"}, Known{"a": true}, nil, Suspects{}},
		{"gone by now", Suspects{"a": true}, nil, nil, nil, Suspects{}},
		{"a handle without a name is none", Suspects{"": true}, Listed{""}, nil, nil, Suspects{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			orphans, suspects := Look(tc.before, tc.listed, tc.known)
			if diff := cmp.Diff(tc.orphans, orphans); diff != "" {
				t.Errorf("orphans:\n%s", diff)
			}
			if diff := cmp.Diff(tc.suspects, suspects); diff != "" {
				t.Errorf("suspects:\n%s", diff)
			}
		})
	}
}
