package reclaim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/verdict"
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
	others := s.Others()
	if i := slices.IndexFunc(others, s.needsVolume); i >= 0 {
		return others[i]
	}
	return nil
}

// IsNew reports whether a PersistentVolume with the handle was not looked at for the snapshot. This
// process wrote it after the snapshot was read, so the deletion must be decided again (D-37).
func (s Snapshot) IsNew(name string) bool {
	return name != s.Name && !slices.Contains(s.sameHandle().Names, name)
}

// AfterNew returns what follows when another PersistentVolume with the handle is new, or may be: all
// volumes are listed. An administrator may retain the volume during the list, so it is read again after it.
func AfterNew(s Snapshot) Verdict {
	return verdict.MustRead[Action](s.handleRef(ReadAllVolumes), s.volumeRef())
}
