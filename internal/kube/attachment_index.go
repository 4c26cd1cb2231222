package kube

import storagev1 "k8s.io/api/storage/v1"

// Indexes of VolumeAttachments that several controllers have on one cache.
const (
	IndexAttachmentVolume = "attachedVolume" // by the PersistentVolume, [AttachedVolume]
	IndexAttachmentNode   = "attachedNode"   // by the node, [AttachedNode]
)

// AttachedVolume returns the PersistentVolume that an attachment names, if it names one.
func AttachedVolume(attachment *storagev1.VolumeAttachment) []string {
	if attachment.Spec.Source.PersistentVolumeName == nil {
		return nil
	}
	return []string{*attachment.Spec.Source.PersistentVolumeName}
}

// AttachedNode returns the node that an attachment names.
func AttachedNode(attachment *storagev1.VolumeAttachment) []string {
	return []string{attachment.Spec.NodeName}
}
