package objects

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// IsExclusive reports whether a volume may be attached to one node only (volume-controllers 4.4). A
// volume without access modes is not.
func IsExclusive(pv *corev1.PersistentVolume) bool {
	modes := pv.Spec.AccessModes
	return len(modes) > 0 && !slices.Contains(modes, corev1.ReadWriteMany) &&
		!slices.Contains(modes, corev1.ReadOnlyMany)
}
