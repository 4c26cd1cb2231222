package topology

import (
	"cmp"
	"maps"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
)

// segment is one topology key with its value.
type segment struct{ key, value string }

func compareSegments(a, b segment) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value))
}

// term is one topology: its segments in the order of their keys (T-2).
type term []segment

func newTerm(segments map[string]string) term {
	out := make(term, 0, len(segments))
	for _, key := range slices.Sorted(maps.Keys(segments)) {
		out = append(out, segment{key, segments[key]})
	}
	return out
}

// compareTerms orders terms: fewer keys first, then by key and value (T-2).
func compareTerms(a, b term) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), slices.CompareFunc(a, b, compareSegments))
}

func isEqualTerm(a, b term) bool { return slices.Equal(a, b) }

// isSubset reports whether every segment of t is in other (T-3).
func (t term) isSubset(other term) bool {
	for _, s := range t {
		if !slices.Contains(other, s) {
			return false
		}
	}
	return true
}

func (t term) message() *csi.Topology {
	segments := make(map[string]string, len(t))
	for _, s := range t {
		segments[s.key] = s.value
	}
	return &csi.Topology{Segments: segments}
}

func messages(terms []term) []*csi.Topology {
	out := make([]*csi.Topology, 0, len(terms))
	for _, t := range terms {
		out = append(out, t.message())
	}
	return out
}

// sortTerms returns the terms in their order, without duplicates.
func sortTerms(terms []term) []term {
	slices.SortFunc(terms, compareTerms)
	return slices.CompactFunc(terms, isEqualTerm)
}

// flatten distributes the values of each expression over the other expressions of its selector, and
// concatenates the selectors (T-20). A selector without expressions adds no term. An expression
// without values, which the API server refuses, drops the expressions before it, as in the
// external-provisioner.
func flatten(allowed []corev1.TopologySelectorTerm) []term {
	var out []term
	for _, selector := range allowed {
		out = append(out, flattenSelector(selector)...)
	}
	return out
}

func flattenSelector(selector corev1.TopologySelectorTerm) []term {
	var terms []term
	for _, expression := range selector.MatchLabelExpressions {
		if len(terms) == 0 {
			terms = []term{nil}
		}
		var next []term
		for _, t := range terms {
			for _, value := range expression.Values {
				next = append(next, append(slices.Clone(t), segment{expression.Key, value}))
			}
		}
		terms = next
	}
	for _, t := range terms {
		slices.SortFunc(t, compareSegments)
	}
	return terms
}
