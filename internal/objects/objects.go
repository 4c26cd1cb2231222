package objects

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
)

// ClaimClass returns the StorageClass that the claim asks for; the beta annotation wins over the
// field (AN-6).
func ClaimClass(claim *corev1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[names.AnnBetaStorageClass]; ok {
		return class
	}
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// VolumeClass returns the StorageClass of the volume; the beta annotation wins over the field (AN-6).
func VolumeClass(pv *corev1.PersistentVolume) string {
	if class, ok := pv.Annotations[names.AnnBetaStorageClass]; ok {
		return class
	}
	return pv.Spec.StorageClassName
}

// IsReleasedOrFailed reports whether the phase says that a claim of the volume is gone. The present
// claimRef may name another claim.
func IsReleasedOrFailed(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed
}

// IsBlock reports whether a volume mode is raw block; none means a filesystem.
func IsBlock(mode *corev1.PersistentVolumeMode) bool {
	return mode != nil && *mode == corev1.PersistentVolumeBlock
}
