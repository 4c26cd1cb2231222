package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCollect(t *testing.T) {
	named := map[string]bool{}
	collect(`{"X-70 something", ...} // X-1, X-2b and X-10..X-12; X-20 to X-21`, named)
	want := []string{"X-1", "X-10", "X-11", "X-12", "X-20", "X-21", "X-2b", "X-70"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(named))); diff != "" {
		t.Error(diff)
	}
}

func TestSections(t *testing.T) {
	got := sections("# words\n1.1 A-1 A-2\n\n2 B-1\n")
	want := []section{{"1.1", []string{"A-1", "A-2"}}, {"2", []string{"B-1"}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(section{})); diff != "" {
		t.Error(diff)
	}
}
