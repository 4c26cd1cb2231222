package binding

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
)

// AsksNoClass reports whether the claim leaves the class to the default. An empty name is a choice:
// no class.
func AsksNoClass(claim *corev1.PersistentVolumeClaim) bool {
	_, old := claim.Annotations[names.AnnBetaStorageClass]
	return !old && claim.Spec.StorageClassName == nil
}

// DefaultClass returns the newest class that is marked as the default; of several with the same
// creation time, the first by name.
func DefaultClass(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	var best *storagev1.StorageClass
	for _, class := range classes {
		if !IsDefault(class) {
			continue
		}
		if best == nil || best.CreationTimestamp.Before(&class.CreationTimestamp) ||
			best.CreationTimestamp.Equal(&class.CreationTimestamp) && class.Name < best.Name {
			best = class
		}
	}
	return best
}

// IsDefault reports whether the class is marked as the default.
func IsDefault(class *storagev1.StorageClass) bool {
	return class.Annotations[names.AnnDefaultStorageClass] == "true" ||
		class.Annotations[names.AnnBetaDefaultStorageClass] == "true"
}
