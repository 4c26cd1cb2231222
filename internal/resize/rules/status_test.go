package resizing

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RZ-X6: the node expands as soon as the PersistentVolume has the new capacity. A write that the claim
// waits for the node, which comes after that, changes nothing: no node would take it back.
func TestHandToNodeAfterTheNode(t *testing.T) {
	for name, tc := range map[string]struct {
		capacity string // that the claim's status has, which the node writes
		want     corev1.ClaimResourceStatus
	}{
		"the node has not expanded": {"1Gi", corev1.PersistentVolumeClaimNodeResizePending},
		"the node was faster":       {"2Gi", ""},
	} {
		claim := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{
			Capacity:           corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(tc.capacity)},
			AllocatedResources: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
		}}
		changed := Apply(claim, HandToNode{resource.MustParse("2Gi")}, metav1.Now())
		got := changed.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
		if pending := len(changed.Status.Conditions) > 0; got != tc.want || pending != (tc.want != "") {
			t.Errorf("%s: state %q, conditions %v", name, got, changed.Status.Conditions)
		}
	}
}
