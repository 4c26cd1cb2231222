package reclaim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func requirement(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func term(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: requirements}
}

// N-12: which volumes are of nodes that are gone.
func TestRemovedPlaces(t *testing.T) {
	const own, zone = "csi.example/node", "zone"
	nodes := Nodes{
		"n1": {corev1.LabelHostname: "host1", own: "n1", zone: "a"},
		"n2": {corev1.LabelHostname: "host2", own: "n2", zone: "a"},
	}
	negated := requirement(corev1.LabelHostname, "n1")
	negated.Operator = corev1.NodeSelectorOpNotIn
	for _, tc := range []struct {
		row   string
		terms []corev1.NodeSelectorTerm
		want  int // places
	}{
		{"a node that is gone", []corev1.NodeSelectorTerm{term(requirement(corev1.LabelHostname, "n9"))}, 1},
		{"by its name", []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{requirement(FieldNodeName, "n9")}}}, 1},
		{"by the driver's key", []corev1.NodeSelectorTerm{term(requirement(own, "n9"))}, 1},
		{"in a zone", []corev1.NodeSelectorTerm{term(requirement(zone, "b"), requirement(own, "n9"))}, 1},
		{"two that are gone", []corev1.NodeSelectorTerm{term(requirement(own, "n8")), term(requirement(own, "n9"))}, 2},
		{"a node that exists", []corev1.NodeSelectorTerm{term(requirement(corev1.LabelHostname, "host1"))}, 0},
		{"one with other labels by now", []corev1.NodeSelectorTerm{term(requirement(zone, "b"), requirement(own, "n1"))}, 0},
		{"one whose host name is another", []corev1.NodeSelectorTerm{term(requirement(corev1.LabelHostname, "n1"))}, 0},
		{"one of two exists", []corev1.NodeSelectorTerm{term(requirement(own, "n1")), term(requirement(own, "n9"))}, 0},
		{"one of two in one term exists", []corev1.NodeSelectorTerm{term(requirement(own, "n1", "n9"))}, 0},
		{"a zone without nodes", []corev1.NodeSelectorTerm{term(requirement(zone, "b"))}, 0},
		{"a node or a zone", []corev1.NodeSelectorTerm{term(requirement(own, "n9")), term(requirement(zone, "b"))}, 0},
		{"a key that no node has", []corev1.NodeSelectorTerm{term(requirement("rack", "n9"))}, 0},
		{"all nodes but one", []corev1.NodeSelectorTerm{term(negated)}, 0},
		{"a term of nothing", []corev1.NodeSelectorTerm{{}}, 0},
		{"no terms", nil, 0},
	} {
		affinity := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: tc.terms}}
		if got := RemovedPlaces(affinity, nodes); len(got) != tc.want {
			t.Errorf("%s: %v", tc.row, got)
		}
	}
	if RemovedPlaces(nil, nodes) != nil || RemovedPlaces(&corev1.VolumeNodeAffinity{}, nodes) != nil {
		t.Error("without affinity")
	}
}

// N-12: a node that comes back begins anew.
func TestAbsences(t *testing.T) {
	var a Absences
	at := time.Unix(1000, 0)
	look := func(after time.Duration, gone ...types.UID) int {
		at = at.Add(after)
		return len(a.Due(gone, at, time.Hour))
	}
	for i, step := range []struct{ got, want int }{
		{look(0, "u", "v"), 0},
		{look(time.Hour-1, "u", "v"), 0},
		{look(1, "u"), 1}, // the node of v is back
		{look(0, "u", "v"), 1},
		{look(time.Hour, "u", "v"), 2},
	} {
		if step.got != step.want {
			t.Errorf("step %d: %d, want %d", i, step.got, step.want)
		}
	}
}
