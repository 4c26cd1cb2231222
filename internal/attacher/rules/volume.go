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

// Turn returns what the runs of an attachment take turns for: an exclusive volume that is to be attached,
// by its handle, or else the attachment alone.
func Turn(s Snapshot) string {
	va, pv := s.Attachment, s.Volume
	if va.DeletionTimestamp != nil || va.Status.Attached || pv == nil || !objects.IsExclusive(pv) {
		return "attachment " + va.Name
	}
	if pv.Spec.CSI == nil {
		return "volume " + pv.Name
	}
	return "handle " + pv.Spec.CSI.VolumeHandle
}
