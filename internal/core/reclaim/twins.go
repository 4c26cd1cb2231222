package reclaim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Handle returns the handle of a volume of the driver; empty for none.
func Handle(pv *corev1.PersistentVolume, driver string) string {
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != driver {
		return ""
	}
	return pv.Spec.CSI.VolumeHandle
}

// NeedyTwin returns another PersistentVolume of the snapshot under which the data must stay; nil for
// none (D-37).
func NeedyTwin(s Snapshot) *corev1.PersistentVolume {
	if i := slices.IndexFunc(s.Twins, needsVolume); i >= 0 {
		return s.Twins[i].Volume
	}
	return nil
}

// NewTwins returns which of the PersistentVolumes with the volume's handle, by name, are not in the
// snapshot. This process wrote them after the snapshot was read, so the deletion must be decided
// again if one of them still exists (D-37).
func NewTwins(s Snapshot, names []string) []string {
	var unknown []string
	for _, name := range names {
		if !slices.ContainsFunc(s.Twins, func(twin Twin) bool { return twin.Volume.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
