package publishing

import (
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// detach is for a VolumeAttachment with a deletionTimestamp (section 6).
func detach(s Snapshot) Verdict {
	va := s.Attachment
	finalizer := names.AttacherFinalizer(s.Driver.Name)
	if !slices.Contains(va.Finalizers, finalizer) && s.Mismatched == Matching {
		return idle(verdict.AttachmentNotOurs, "the volume is detached; another finalizer keeps the VolumeAttachment")
	}
	handle, secret := detachSource(s)
	if handle == "" {
		return failed(s, Detaching, verdict.UnpublishFailed, detachInvalid(s), nil)
	}
	id, ok := va.Annotations[names.AnnAttachedNodeID] // before the CSINode's: it is the id that was published to (AT-H2)
	if !ok {
		id, ok = registeredID(s.Node, s.Driver.Name)
	}
	if !ok {
		return failed(s, Detaching, verdict.UnpublishFailed, unregistered(s), nil)
	}
	request := &csi.ControllerUnpublishVolumeRequest{VolumeId: handle, NodeId: id}
	return then(verdict.UnpublishRequested, fmt.Sprintf("detach volume %q from node %q", handle, id), nil, Unpublish{request, secret})
}

// detachSource returns the handle and the secret of the volume: those of the PersistentVolume, or those that were noted when it was
// published if the PersistentVolume is gone (AT-H7).
func detachSource(s Snapshot) (string, types.NamespacedName) {
	if s.Spec != nil && s.Spec.CSI != nil {
		return s.Spec.CSI.VolumeHandle, secretOf(s.Spec.CSI)
	}
	notes := s.Attachment.Annotations
	secret := types.NamespacedName{}
	if text := notes[names.AnnPublishSecret]; text != "" {
		secret = parseSecret(text)
	}
	return notes[names.AnnVolumeHandle], secret
}

func detachInvalid(s Snapshot) string {
	if message := invalid(s); message != "" {
		return message
	}
	return "the volume handle is empty"
}

// DecideVolume returns whether a PersistentVolume loses the attacher's finalizer (section 7). attachments are those that name it.
func DecideVolume(pv *corev1.PersistentVolume, driver Driver, attachments int) Verdict {
	finalizer := names.AttacherFinalizer(driver.Name)
	if pv == nil || !slices.Contains(pv.Finalizers, finalizer) || !leaves(pv, driver) {
		return idle(verdict.AttachmentNotOurs, "the PersistentVolume keeps the attacher's finalizer, or does not have it")
	}
	if attachments > 0 {
		return wait{Finding: finding(verdict.VolumeHeldByAttacher, fmt.Sprintf("%d VolumeAttachments name the PersistentVolume", attachments))}
	}
	done := idle(verdict.VolumeFreedByAttacher, "no VolumeAttachment names the PersistentVolume")
	return do{Finding: done.Because(), Actions: []Action{RemoveFinalizer{finalizer}}, Then: done}
}

// leaves reports whether the volume is being deleted, or its migration to this driver was rolled back (AT-V1).
func leaves(pv *corev1.PersistentVolume, driver Driver) bool {
	if pv.DeletionTimestamp != nil {
		return true
	}
	return pv.Spec.CSI == nil && pv.Annotations[names.AnnMigratedTo] != driver.Name
}
