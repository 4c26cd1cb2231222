package publishing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// Decide returns the next step for one VolumeAttachment (AT-Q8).
func Decide(s Snapshot, now time.Time) Verdict {
	va := s.Attachment
	switch {
	case va == nil:
		return idle(verdict.AttachmentGone, "the VolumeAttachment does not exist")
	case va.Spec.Attacher != s.Driver.Name:
		return idle(verdict.AttachmentNotOurs, fmt.Sprintf("the VolumeAttachment is for driver %q", va.Spec.Attacher))
	case s.Driver.IsTrivial():
		return trivial(s)
	case va.DeletionTimestamp != nil:
		return detach(s)
	case va.Status.Attached && s.Mismatched == Matching:
		return idle(verdict.AttachmentPublished, "the volume is attached")
	}
	return attach(s, now)
}

// trivial is for drivers without ControllerPublishVolume (section 9). A finalizer that a former version of the driver left on a
// VolumeAttachment is removed: the driver has no call to detach (AT-T2, AT-H8).
func trivial(s Snapshot) Verdict {
	va := s.Attachment
	finalizer := names.AttacherFinalizer(s.Driver.Name)
	switch {
	case va.DeletionTimestamp != nil && slices.Contains(va.Finalizers, finalizer):
		return then(verdict.UnpublishRequested, "the driver has no ControllerUnpublishVolume; the finalizer is removed",
			idle(verdict.AttachmentGone, "the driver has nothing to detach"), RemoveFinalizer{finalizer})
	case va.Status.Attached:
		return idle(verdict.AttachmentPublished, "the driver needs no call to attach")
	}
	return then(verdict.PublishRequested, "the driver needs no call to attach",
		idle(verdict.AttachmentPublished, "the driver needs no call to attach"), MarkAttached{})
}

func attach(s Snapshot, now time.Time) Verdict {
	if message := invalid(s); message != "" {
		return failed(s, Attaching, verdict.PublishInvalid, message, nil)
	}
	finalizer := names.AttacherFinalizer(s.Driver.Name)
	next := attachProtected(s, now)
	if s.Volume != nil && !slices.Contains(s.Volume.Finalizers, finalizer) {
		return then(verdict.PublishRequested, "the PersistentVolume gets the attacher's finalizer", next, AddVolumeFinalizer{finalizer})
	}
	return next
}

// attachProtected is the attach of a volume whose PersistentVolume has the finalizer.
func attachProtected(s Snapshot, now time.Time) Verdict {
	va, source := s.Attachment, s.Spec.CSI
	capability, err := Capability(s.Spec, s.Driver)
	if err != nil {
		return failed(s, Attaching, verdict.PublishInvalid, err.Error(), nil)
	}
	id, ok := registeredID(s.Node, s.Driver.Name)
	if !ok {
		if until := va.CreationTimestamp.Add(joinGrace); now.Before(until) {
			return wait{Finding: finding(verdict.PublishBlocked, unregistered(s)), Until: until}
		}
		return failed(s, Attaching, verdict.PublishInvalid, unregistered(s), nil)
	}
	if other := Blocker(s); other != nil {
		return Blocked(other)
	}
	request := &csi.ControllerPublishVolumeRequest{
		VolumeId: source.VolumeHandle, NodeId: id, VolumeCapability: capability, VolumeContext: source.VolumeAttributes,
		Readonly: source.ReadOnly && s.Driver.can(csi.ControllerServiceCapability_RPC_PUBLISH_READONLY),
	}
	var actions []Action
	if !MayBeOnManyNodes(s.Spec) {
		actions = append(actions, Reserve{source.VolumeHandle})
	}
	finalizer, annotations := names.AttacherFinalizer(s.Driver.Name), remembered(s, id)
	if !slices.Contains(va.Finalizers, finalizer) || !annotated(va, annotations) {
		actions = append(actions, Prepare{finalizer, annotations})
	}
	actions = append(actions, Publish{request, secretOf(source)})
	return then(verdict.PublishRequested, fmt.Sprintf("attach volume %q to node %q", source.VolumeHandle, id), nil, actions...)
}

// invalid returns why the volume cannot be attached, in upstream's order (AT-A1 to AT-A7).
func invalid(s Snapshot) string {
	source := s.Attachment.Spec.Source
	named, inline := source.PersistentVolumeName, source.InlineVolumeSpec
	switch {
	case named != nil && inline != nil:
		return "both InlineCSIVolumeSource and PersistentVolumeName specified in VA source"
	case named == nil && inline == nil:
		return "neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source"
	case named != nil && s.Volume == nil:
		return fmt.Sprintf("persistentvolume %q not found", *named)
	case named != nil && s.Volume.DeletionTimestamp != nil:
		return fmt.Sprintf("PersistentVolume %q is marked for deletion", *named)
	case s.Untranslated != "":
		return "failed to translate in tree pv to CSI: " + s.Untranslated
	case s.Spec == nil || s.Spec.CSI == nil:
		if named == nil {
			return "inline volume spec contains nil CSI source"
		}
		return "pv spec contained non-csi source that was not migrated"
	}
	return ""
}

func unregistered(s Snapshot) string {
	node := s.Attachment.Spec.NodeName
	if s.Node == nil {
		return fmt.Sprintf("csinode.storage.k8s.io %q not found", node)
	}
	return fmt.Sprintf("CSINode %s does not contain driver %s", node, s.Driver.Name)
}

func registeredID(node *storagev1.CSINode, driver string) (string, bool) {
	if node == nil {
		return "", false
	}
	for _, d := range node.Spec.Drivers {
		if d.Name == driver {
			return d.NodeID, true
		}
	}
	return "", false
}

// Blocker returns another VolumeAttachment that may have a single-node volume published (AT-H11); nil for none. Of two that have
// not been published yet, or that an attacher without this rule has begun, the older one goes first.
func Blocker(s Snapshot) *storagev1.VolumeAttachment {
	if MayBeOnManyNodes(s.Spec) {
		return nil
	}
	finalizer := names.AttacherFinalizer(s.Driver.Name)
	mine := slices.Contains(s.Attachment.Finalizers, finalizer)
	for _, other := range s.Others {
		if other.Spec.NodeName == s.Attachment.Spec.NodeName {
			continue
		}
		begun := slices.Contains(other.Finalizers, finalizer) || other.Status.Attached
		switch {
		case begun && (!mine || other.Status.Attached || other.DeletionTimestamp != nil):
			return other
		case begun == mine && other.DeletionTimestamp == nil && older(other, s.Attachment):
			return other
		}
	}
	return nil
}

// Blocked returns the verdict for a volume that another VolumeAttachment may have published.
func Blocked(other *storagev1.VolumeAttachment) Verdict {
	return wait{Finding: finding(verdict.PublishBlocked, fmt.Sprintf(
		"VolumeAttachment %s may have the volume published on node %s", other.Name, other.Spec.NodeName))}
}

// BusyVolume returns the verdict for a volume that another worker of this process is about to publish elsewhere.
func BusyVolume(handle string) Verdict {
	return wait{Finding: finding(verdict.PublishBlocked, fmt.Sprintf("volume %q is being published for another node", handle))}
}

func older(a, b *storagev1.VolumeAttachment) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// MayBeOnManyNodes reports whether a volume may be attached to more than one node at a time (volume-controllers 4.4).
func MayBeOnManyNodes(spec *corev1.PersistentVolumeSpec) bool {
	return len(spec.AccessModes) == 0 || slices.Contains(spec.AccessModes, corev1.ReadWriteMany) ||
		slices.Contains(spec.AccessModes, corev1.ReadOnlyMany)
}

// remembered is what a detach needs when the CSINode or the PersistentVolume is gone (AT-H2, AT-H7).
func remembered(s Snapshot, id string) map[string]string {
	all := map[string]string{names.AnnAttachedNodeID: id, names.AnnVolumeHandle: s.Spec.CSI.VolumeHandle}
	if ref := secretOf(s.Spec.CSI); ref.Name != "" {
		all[names.AnnPublishSecret] = ref.String()
	}
	return all
}

func annotated(va *storagev1.VolumeAttachment, want map[string]string) bool {
	for key, value := range want {
		if have, ok := va.Annotations[key]; !ok || have != value {
			return false
		}
	}
	return true
}

func secretOf(source *corev1.CSIPersistentVolumeSource) types.NamespacedName {
	if ref := source.ControllerPublishSecretRef; ref != nil {
		return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	return types.NamespacedName{}
}

func parseSecret(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}
