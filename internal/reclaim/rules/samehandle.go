package reclaim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Handle returns the handle of a volume of the driver; empty for another driver's.
func Handle(pv *corev1.PersistentVolume, driver string) string {
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != driver {
		return ""
	}
	return pv.Spec.CSI.VolumeHandle
}

// SharedWith returns another PersistentVolume of the snapshot that needs the same data; nil for
// none (D-37).
func SharedWith(s Snapshot) *corev1.PersistentVolume {
	if i := slices.IndexFunc(s.SameHandle, needsVolume); i >= 0 {
		return s.SameHandle[i].Volume
	}
	return nil
}

// NotInSnapshot returns which of the named PersistentVolumes with the same handle the snapshot
// lacks. This process wrote them after the snapshot was read, so the deletion must be decided again
// if one of them still exists (D-37).
func NotInSnapshot(s Snapshot, names []string) []string {
	var unknown []string
	for _, name := range names {
		if !slices.ContainsFunc(s.SameHandle, func(other SameHandle) bool { return other.Volume.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
