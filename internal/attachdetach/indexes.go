package attachdetach

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// Indexes of the attach-detach controller: volumes by [kube.HandleBucket], pods by claim, by volume
// named in place and by node, VolumeAttachments by volume, node and remembered handle, nodes by the
// volumes that their status names.
const (
	IndexAttachedHandle   = "attachedHandle"
	IndexAttachedClaim    = "attachedClaim"
	IndexAttachedInline   = "attachedInline"
	IndexAttachedPodNode  = "attachedPodNode"
	IndexAttachmentHandle = "attachedRemembered"
	IndexListed           = "attachedListed"
)

// Indexes are all indexes of the attach-detach controller; [Gather] uses most of
// them.
func Indexes() []kube.Index {
	return []kube.Index{
		{Kind: &corev1.PersistentVolume{}, Field: IndexAttachedHandle, Values: attachedHandle},
		kube.IndexBy(IndexAttachedClaim, protection.ClaimNames),
		{Kind: &corev1.Pod{}, Field: IndexAttachedInline, Values: attachedInline},
		{Kind: &corev1.Pod{}, Field: IndexAttachedPodNode, Values: attachedPodNode},
		kube.IndexBy(kube.IndexAttachmentVolume, kube.AttachedVolume),
		kube.IndexBy(kube.IndexAttachmentNode, kube.AttachedNode),
		{Kind: &storagev1.VolumeAttachment{}, Field: IndexAttachmentHandle, Values: attachmentHandle},
		{Kind: &corev1.Node{}, Field: IndexListed, Values: listedVolumes},
	}
}

func attachedHandle(o client.Object) []string {
	if key, ok := attachment.KeyOfVolume(o.(*corev1.PersistentVolume)); ok {
		return []string{kube.HandleBucket(key.Handle)}
	}
	return nil
}

// InlineVolumes are the volumes that a pod names in place, as those of their CSI drivers (4.9).
func InlineVolumes(pod *corev1.Pod) (all []*corev1.PersistentVolume) {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; objects.IsInline(v) {
			if pv, err := objects.Inline(v, pod.Namespace); err == nil && pv.Spec.CSI != nil {
				all = append(all, pv)
			}
		}
	}
	return all
}

// InlineKeys are the keys of the volumes that a pod names in place.
func InlineKeys(pod *corev1.Pod) (keys []attachment.Key) {
	for _, pv := range InlineVolumes(pod) {
		keys = append(keys, attachment.Key{Driver: pv.Spec.CSI.Driver, Handle: pv.Spec.CSI.VolumeHandle})
	}
	return keys
}

func attachedInline(o client.Object) (all []string) {
	for _, key := range InlineKeys(o.(*corev1.Pod)) {
		all = append(all, key.String())
	}
	return all
}

// attachedPodNode is the node of a pod that has volumes which may be attached.
func attachedPodNode(o client.Object) []string {
	pod := o.(*corev1.Pod)
	if pod.Spec.NodeName == "" || len(protection.ClaimNames(pod)) == 0 && len(InlineKeys(pod)) == 0 {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// noHandle is the value of IndexAttachmentHandle for a VolumeAttachment of a PersistentVolume that does not
// remember the handle: one of an attacher other than Purser's, or one that was not prepared yet. It is no
// [attachment.Key] as a string.
const noHandle = ""

func attachmentHandle(o client.Object) []string {
	va := o.(*storagev1.VolumeAttachment)
	if handle := va.Annotations[names.AnnVolumeHandle]; handle != "" {
		return []string{attachment.Key{Driver: va.Spec.Attacher, Handle: handle}.String()}
	}
	if key, ok := KeyOfInline(va); ok {
		return []string{key.String()}
	}
	if va.Spec.Source.PersistentVolumeName != nil {
		return []string{noHandle}
	}
	return nil
}

// KeyOfInline returns the key of a VolumeAttachment that has the volume in place.
func KeyOfInline(va *storagev1.VolumeAttachment) (attachment.Key, bool) {
	source := va.Spec.Source
	spec := source.InlineVolumeSpec
	if source.PersistentVolumeName != nil || spec == nil || spec.CSI == nil || spec.CSI.Driver != va.Spec.Attacher {
		return attachment.Key{}, false
	}
	return attachment.Key{Driver: spec.CSI.Driver, Handle: spec.CSI.VolumeHandle}, true
}

func listedVolumes(o client.Object) []string {
	var all []string
	for name := range VolumesOfNode(o.(*corev1.Node)) {
		all = append(all, name)
	}
	return all
}

// VolumesOfNode are the keys of the volumes that a node's status names, as strings.
func VolumesOfNode(node *corev1.Node) map[string]attachment.Key {
	all := map[string]attachment.Key{}
	add := func(name corev1.UniqueVolumeName) {
		if driver, handle, ok := names.ParseUniqueVolumeName(string(name)); ok {
			key := attachment.Key{Driver: driver, Handle: handle}
			all[key.String()] = key
		}
	}
	for _, v := range node.Status.VolumesAttached {
		add(v.Name)
	}
	for _, name := range node.Status.VolumesInUse {
		add(name)
	}
	return all
}
