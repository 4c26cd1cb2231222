package binding

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// 3.1: a claim gets the condition Unused in the write that makes it bound, unless it has conditions.
func TestBindWithCondition(t *testing.T) {
	unused := &corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue,
	}
	for name, tc := range map[string]struct {
		change  func(*corev1.PersistentVolumeClaim)
		unused  *corev1.PersistentVolumeClaimCondition
		written bool
	}{
		"pending":                   {func(*corev1.PersistentVolumeClaim) {}, unused, true},
		"another process keeps it":  {func(*corev1.PersistentVolumeClaim) {}, nil, false},
		"lost and found again":      {func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }, unused, false},
		"bound, other access modes": {func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimBound }, unused, false},
		"has a condition of others": {func(c *corev1.PersistentVolumeClaim) {
			c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "x"}}
		}, unused, false},
		"bound while it is deleted": {func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Unix(1, 0)) }, unused, false},
	} {
		claim := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
		claim.Name, claim.UID = "c", "u"
		tc.change(claim)
		pv := &corev1.PersistentVolume{}
		pv.Name = "v"
		pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		var got *corev1.PersistentVolumeClaimCondition
		for _, action := range bind(claim, pv, tc.unused).(do).Actions {
			if set, is := action.(SetClaimStatus); is {
				got = set.Status.Unused
			}
		}
		if written := got != nil; written != tc.written {
			t.Errorf("%s: condition %v, want one: %t", name, got, tc.written)
		}
	}
}
