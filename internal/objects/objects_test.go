package objects

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
)

// AN-6: the beta annotation wins over the field, also when it is empty.
func TestClass(t *testing.T) {
	for _, tc := range []struct {
		annotations map[string]string
		field, want string
	}{
		{nil, "", ""},
		{nil, "fast", "fast"},
		{map[string]string{names.AnnBetaStorageClass: "slow"}, "fast", "slow"},
		{map[string]string{names.AnnBetaStorageClass: ""}, "fast", ""},
	} {
		claim, pv := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
		claim.Annotations, pv.Annotations = tc.annotations, tc.annotations
		claim.Spec.StorageClassName, pv.Spec.StorageClassName = &tc.field, tc.field
		if c, v := ClaimClass(claim), VolumeClass(pv); c != tc.want || v != tc.want {
			t.Errorf("AN-6 %v, %q: got %q and %q, want %q", tc.annotations, tc.field, c, v, tc.want)
		}
	}
	if got := ClaimClass(&corev1.PersistentVolumeClaim{}); got != "" {
		t.Errorf("no class: got %q", got)
	}
}

func TestPhaseAndMode(t *testing.T) {
	for phase, want := range map[corev1.PersistentVolumePhase]bool{
		"": false, corev1.VolumePending: false, corev1.VolumeAvailable: false, corev1.VolumeBound: false,
		corev1.VolumeReleased: true, corev1.VolumeFailed: true,
	} {
		if got := IsReleasedOrFailed(&corev1.PersistentVolume{Status: corev1.PersistentVolumeStatus{Phase: phase}}); got != want {
			t.Errorf("phase %q: got %t", phase, got)
		}
	}
	if IsBlock(nil) || IsBlock(new(corev1.PersistentVolumeFilesystem)) || !IsBlock(new(corev1.PersistentVolumeBlock)) {
		t.Error("block is not told from filesystem")
	}
}
