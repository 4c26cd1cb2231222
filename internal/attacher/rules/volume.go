package publishing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
)

// MayRelease reports whether the finalizer may go from a PersistentVolume: it is being deleted, or is
// one of an in-tree plugin that is not marked as migrated to the driver, and no VolumeAttachment of
// any driver names it (AT-V1, AT-V2).
func MayRelease(pv *corev1.PersistentVolume, driver string, attachments int) bool {
	ends := pv.DeletionTimestamp != nil || objects.IsInTree(pv) && pv.Annotations[names.AnnMigratedTo] != driver
	return ends && attachments == 0 && slices.Contains(pv.Finalizers, names.AttacherFinalizer(driver))
}
