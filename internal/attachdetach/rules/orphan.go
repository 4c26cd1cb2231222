package attachment

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/verdict"
)

// wantedVolume is the name of the PersistentVolume that the node's pods use, one of several with the
// same handle (R11); empty for the one that they name in place.
func (p *plan) wantedVolume(node string) string {
	terminating := ""
	for _, pv := range p.Volumes {
		switch {
		case !p.isUsed(pv, node):
		case pv.DeletionTimestamp == nil:
			return pv.Name
		case terminating == "":
			terminating = pv.Name
		}
	}
	switch {
	case terminating != "":
		return terminating
	case p.Inline != nil:
		return ""
	}
	return p.Volumes[0].Name
}

// isUsed reports whether a pod on the node uses the claim that the PersistentVolume is bound to.
func (p *plan) isUsed(pv *corev1.PersistentVolume, node string) bool {
	return p.Bound[pv.Name] && slices.ContainsFunc(p.wants[node], func(pod *corev1.Pod) bool {
		return pod.Namespace == pv.Spec.ClaimRef.Namespace && namesClaim(pod, pv.Spec.ClaimRef.Name)
	})
}

func namesClaim(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim ||
			v.Ephemeral != nil && pod.Name+"-"+v.Name == claim
	})
}

// isReplaceable reports whether the VolumeAttachment of a node that wants the volume is for another
// PersistentVolume than the pods use, which is gone or terminating, and whether it can be detached
// without taking a device from below a pod. All volumes with one handle have one VolumeAttachment on
// a node (R11), so one that the attacher cannot attach any more would block the others for good.
//   - Neither attached nor listed: no kubelet can have mounted it. A kubelet reports it in use all the
//     same, as soon as it knows the pod.
//   - Attached: only if the node does not report it in use. In use it serves the pods as it is, and
//     is detached after the last of them.
func (p *plan) isReplaceable(va *storagev1.VolumeAttachment, node string) bool {
	if slices.Contains(p.foreign, va) {
		return false
	}
	unmounted := !va.Status.Attached && !p.mayBeListed(node) || !isInUse(p.Nodes[node], p.Key.UniqueName())
	return unmounted && p.isOrphan(va, node)
}

// isOrphan reports whether the PersistentVolume of a VolumeAttachment does not exist, is being deleted, or
// was created again under its name with another handle or without CSI. Its absence has an effect, so it is
// read live.
func (p *plan) isOrphan(va *storagev1.VolumeAttachment, node string) bool {
	name := ptr.Deref(va.Spec.Source.PersistentVolumeName, "")
	if name == "" {
		return false
	}
	for _, pv := range p.Volumes {
		if pv.Name == name {
			return pv.DeletionTimestamp != nil && name != p.wantedVolume(node)
		}
	}
	pv, read := p.Live[name]
	if !read {
		p.reads = append(p.reads, verdict.Ref{What: RefVolume, Name: name})
		return false
	}
	key, _ := KeyOfVolume(pv)
	return key != p.Key
}

// replace detaches the volume as [plan.detach] does. The deletion of the VolumeAttachment enqueues the
// volume, which is then attached for the PersistentVolume that the pods use.
func (p *plan) replace(va *storagev1.VolumeAttachment, node string) {
	message := fmt.Sprintf(
		"VolumeAttachment %s is for PersistentVolume %q, which is gone, another volume by now or being deleted; "+
			"it is replaced by one for %q",
		va.Name, ptr.Deref(va.Spec.Source.PersistentVolumeName, ""), p.wantedVolume(node))
	switch {
	case p.Unlisting[node]: // the answer to that write enqueues the volume
	case p.mayBeListed(node):
		p.act(verdict.AttachmentOrphaned, message, Unlist{Node: node, Attachment: va})
	default:
		p.act(verdict.AttachmentOrphaned, message, Delete{Attachment: va})
	}
	p.wait(verdict.AttachUnderWay, time.Time{}, fmt.Sprintf(
		"driver %q detaches the volume from node %s", p.Key.Driver, node,
	))
}
