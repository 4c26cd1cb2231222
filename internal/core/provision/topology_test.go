package provision

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// TestAllowedTopologies: what the allowedTopologies of a class mean for the request.
func TestAllowedTopologies(t *testing.T) {
	allow := func(values ...string) func(*Snapshot) {
		return func(s *Snapshot) {
			s.Driver.HasTopology = true
			s.Class.AllowedTopologies = []corev1.TopologySelectorTerm{{
				MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: values}},
			}}
		}
	}
	selectB := func(s *Snapshot) {
		s.Claim.Annotations[names.AnnSelectedNode] = "n"
		s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "b"}}}
		s.CSINode = &storagev1.CSINode{Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: s.Driver.Name, TopologyKeys: []string{"zone"}}},
		}}
	}
	without := func(s *Snapshot) { s.Driver.HasTopology = false }
	for _, tc := range []struct {
		row    string
		s      Snapshot
		want   string // zones of the requisite terms
		reason verdict.Reason
	}{
		{"T-1 a driver without topology", world(allow("a"), without), "", ""},
		{"T-11 the selected node's zone is allowed", world(allow("a", "b"), selectB), "b", ""},
		{"T-12 the selected node's zone is not allowed", world(allow("a"), selectB), "", verdict.ClassInvalid},
		{"T-15 no selected node", world(allow("b", "a")), "a b", ""},
	} {
		t.Run(tc.row, func(t *testing.T) {
			requirement, finding := accessibility(tc.s)
			var got []string
			for _, place := range requirement.GetRequisite() {
				got = append(got, place.GetSegments()["zone"])
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
			if (finding == nil) != (tc.reason == "") || finding != nil && finding.Reason != tc.reason {
				t.Errorf("finding %+v, want reason %q", finding, tc.reason)
			}
		})
	}
}
