package explain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// decideAttachment returns the decision of the attach-detach controller about a volume on one node,
// and the message of its event on the pods there. unread has the kinds that the decision lacks.
func (c *Cluster) decideAttachment(
	pv *corev1.PersistentVolume, node string, about Ref,
) (decided verdict.Finding, message string, unread []Evidence) {
	s, missing, err := c.Gather.Attachment(attachment.Key{Driver: pv.Spec.CSI.Driver, Handle: pv.Spec.CSI.VolumeHandle})
	if unread = c.undecided(about, missing, err); unread != nil {
		return decided, "", unread
	}
	decided, message = attachment.OnNode(s, node, c.Now)
	return decided, message, nil
}

// publishRefused explains a VolumeAttachment by the decision of the driver's attacher, if that ends
// without a call. It adds the unread kinds to f. A driver that attaches is assumed.
func (c *Cluster) publishRefused(
	va *storagev1.VolumeAttachment, verb string, f *Finding,
) (found Finding, refused bool) {
	driver := va.Spec.Attacher
	s, missing, err := c.Gather.Publishing(va, publishing.Driver{Name: driver, Publishes: true})
	if unread := c.undecided(f.Object, missing, err); unread != nil {
		f.Evidence = append(f.Evidence, unread...)
		return *f, false
	}
	why := publishing.Decide(s, c.Now).Because()
	if f.Decision == "" {
		*f = f.by(why, "")
	}
	found = f.by(why, "")
	found = found.waits(why.Reason, Administrator, "the volume to be %sed, which cannot go on: %s", verb, why.Message)
	found.Fix = []Step{{
		Text: verdict.Advice(why.Reason), Command: shell.Command("kubectl describe volumeattachment %s", va.Name),
	}}
	switch why.Reason {
	case verdict.AttachmentFailed:
		return c.unattachable(va, s, found), true
	case verdict.AttachmentNodeAwaited:
		found.Cause = Ref{Kind: CSINode, Name: va.Spec.NodeName}
		found.Evidence = append(found.Evidence, Evidence{
			found.Cause, "spec.drivers", c.driversOn(va.Spec.NodeName), driver,
		})
		found.Fix = c.registerFix(driver, va.Spec.NodeName)
		return found, true
	case verdict.AttachmentHeld:
		return heldAttachment(s, found), true
	case verdict.AttachmentReleased:
		for _, finalizer := range va.Finalizers {
			held := c.heldBy(finalizer, *f)
			held.Evidence = append(held.Evidence, Evidence{
				attachmentRef(va), "metadata.finalizers", finalizer, "absent",
			})
			return held, true
		}
		return *f, false
	default:
		return *f, false
	}
}

// unattachable is about a VolumeAttachment that names something that cannot be attached or
// detached.
func (c *Cluster) unattachable(va *storagev1.VolumeAttachment, s publishing.Snapshot, f Finding) Finding {
	volume := va.Spec.Source.PersistentVolumeName
	switch {
	case volume != nil && s.Volume == nil:
		f.Cause = Ref{Kind: Volume, Name: *volume}
		f.Evidence = append(f.Evidence, Evidence{
			attachmentRef(va), "spec.source.persistentVolumeName", *volume, "a PersistentVolume that exists",
		})
	case volume != nil && s.Volume.DeletionTimestamp != nil && va.DeletionTimestamp == nil:
		f.Cause = volumeRef(s.Volume)
		f.Evidence = append(f.Evidence, Evidence{
			f.Cause, "metadata.deletionTimestamp", s.Volume.DeletionTimestamp.UTC().String(), "absent",
		})
	default:
		f.Evidence = append(f.Evidence, Evidence{attachmentRef(va), "spec.source", f.Words, ""})
	}
	if va.DeletionTimestamp != nil {
		f.Fix = append(f.Fix, Step{
			Text: "Detach the volume on the backend before the finalizer is removed by hand",
			Risk: "the volume may still be attached: another node could then write to it at the same time",
		})
	}
	return f
}

// heldAttachment is about an exclusive volume that another VolumeAttachment has.
func heldAttachment(s publishing.Snapshot, f Finding) Finding {
	finalizer := names.AttacherFinalizer(s.Driver.Name)
	for _, other := range s.Others {
		if other.Spec.NodeName != s.Attachment.Spec.NodeName && slices.Contains(other.Finalizers, finalizer) {
			f.Cause = attachmentRef(other)
			f.Evidence = append(f.Evidence, Evidence{
				f.Cause, "spec.nodeName", other.Spec.NodeName, s.Attachment.Spec.NodeName,
			})
			f.Fix = append(f.Fix, Step{
				Text:    "If no pod on that node needs the volume, delete the other VolumeAttachment",
				Command: shell.Command("kubectl delete volumeattachment %s", other.Name),
				Risk:    "pods that still use the volume there lose it",
			})
			break
		}
	}
	return f
}
