package topology

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
)

// D-13: which node a volume belongs to.
func TestIncludes(t *testing.T) {
	at := func(zones ...string) *corev1.VolumeNodeAffinity {
		var places []*csi.Topology
		for _, zone := range zones {
			places = append(places, &csi.Topology{Segments: map[string]string{"zone": zone}})
		}
		return Affinity(places)
	}
	required := func(t corev1.NodeSelectorTerm) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{t}}}
	}
	expression := func(key string, operator corev1.NodeSelectorOperator, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}
	}
	for _, tc := range []struct {
		row      string
		affinity *corev1.VolumeNodeAffinity
		want     bool
	}{
		{"none", nil, true},
		{"nothing required", &corev1.VolumeNodeAffinity{}, true},
		{"its zone", at("b"), true},
		{"one of two", at("a", "b"), true},
		{"another zone", at("a"), false},
		{"an empty term", required(corev1.NodeSelectorTerm{}), false},
		{"by name", required(corev1.NodeSelectorTerm{MatchFields: expression("metadata.name", corev1.NodeSelectorOpIn, "n")}), true},
		{"by another name", required(corev1.NodeSelectorTerm{MatchFields: expression("metadata.name", corev1.NodeSelectorOpIn, "m")}), false},
		{"not in", required(corev1.NodeSelectorTerm{MatchExpressions: expression("zone", corev1.NodeSelectorOpNotIn, "b")}), false},
		{"exists", required(corev1.NodeSelectorTerm{MatchExpressions: expression("zone", corev1.NodeSelectorOpExists)}), true},
		{"does not exist", required(corev1.NodeSelectorTerm{MatchExpressions: expression("rack", corev1.NodeSelectorOpDoesNotExist)}), true},
		{"an unknown operator", required(corev1.NodeSelectorTerm{MatchExpressions: expression("zone", "Near", "b")}), false},
	} {
		if got := Includes(tc.affinity, "n", map[string]string{"zone": "b"}); got != tc.want {
			t.Errorf("%s: %v", tc.row, got)
		}
	}
}
