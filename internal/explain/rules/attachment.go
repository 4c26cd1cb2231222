package explain

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

func attachmentRef(va *storagev1.VolumeAttachment) Ref { return Ref{Kind: Attachment, Name: va.Name} }

func (c *Cluster) explainAttachment(va *storagev1.VolumeAttachment) Report {
	report := Report{
		Object:  attachmentRef(va),
		Summary: fmt.Sprintf("attached: %t, to node %s", va.Status.Attached, va.Spec.NodeName),
	}
	if va.Status.Attached && va.DeletionTimestamp == nil {
		report.Findings = c.unusedAttachment(va)
		report.Next = "the kubelet of the node mounts the volume"
	} else {
		report.Findings = []Finding{c.attachment(va, findingAbout(attachmentRef(va), nil))}
	}
	return c.finish(report, Lease, Node, Pod)
}

// attachment explains a VolumeAttachment that is not attached yet, or that is being deleted.
func (c *Cluster) attachment(va *storagev1.VolumeAttachment, f Finding) Finding {
	f.Cause = attachmentRef(va)
	driver := va.Spec.Attacher
	verb, failure, since := "attach", va.Status.AttachError, va.CreationTimestamp.Time
	if va.DeletionTimestamp != nil {
		verb, failure, since = "detach", va.Status.DetachError, va.DeletionTimestamp.Time
	}
	if f.Since == nil {
		f.Since = &since
	}
	if found, refused := c.publishRefused(va, verb, &f); refused {
		return found
	}
	state, _ := c.healthOf(attacher(driver))
	switch {
	case failure != nil && (state != expired || c.renewedAfter(attacher(driver), failure.Time.Time)):
		status := Evidence{
			attachmentRef(va),
			"status." + verb + "Error, " + age(c.Now.Sub(failure.Time.Time)) + " ago", failure.Message, "absent",
		}
		if found, is := c.secretForbidden(failure.Message, status, c.secretsOfAttached(va), f); is {
			return found
		}
		f = attachFailed(va, verb, status, f)
	case state == expired || state == noLease && c.olderThan(since, patience):
		f = f.about(Ref{Kind: CSIDriver, Name: driver}).waits(verdict.AttacherSilent, Administrator,
			"%s to %s the volume; it shows no sign of life", attacher(driver).name, verb)
		f.Evidence = append(append(f.Evidence, Evidence{attachmentRef(va), "spec.attacher", driver, ""}),
			c.leaseEvidence(attacher(driver))...)
		f.Fix = []Step{{
			Text: "Does the driver's controller pod have a csi-attacher container that runs? If the driver needs " +
				"no attachment, its CSIDriver must say attachRequired: false",
			Command: "kubectl get pods -A | grep -i csi",
		}}
		f = c.byRunner(attacher(driver), f)
	default:
		f.Reason, f.Actor, f.WaitsFor = verdict.AttachUnderWay, Itself, fmt.Sprintf(
			"driver %q to %s the volume", driver, verb,
		)
		f.Evidence = append(f.Evidence, Evidence{
			attachmentRef(va), "status.attached", fmt.Sprint(va.Status.Attached),
			fmt.Sprint(verb == "attach"),
		})
		if c.olderThan(since, 10*patience) {
			f.Actor = Administrator
			f.Fix = []Step{{
				Text: "There has been no answer for " + age(
					c.Now.Sub(since),
				) + ": read the log of the driver's controller",
				Command: "kubectl get pods -A | grep -i csi",
			}}
			f = c.readLog(attacher(driver), f)
		}
	}
	return f
}

// attachFailed is about an answer of the driver that is an error.
func attachFailed(va *storagev1.VolumeAttachment, verb string, status Evidence, f Finding) Finding {
	answer := readAnswer(va.Spec.Attacher, status.Value)
	f = f.waits(verdict.AttachFailed, answer.actor,
		"driver %q to %s the volume; it failed: %s", va.Spec.Attacher, verb, quote(firstLine(answer.words)))
	f.Evidence = append(f.Evidence, status)
	f.Fix = []Step{answer.step, {
		Text: "It is repeated by itself", Command: shell.Command("kubectl describe volumeattachment %s", va.Name),
	}}
	if verb == "detach" {
		f.Fix = append(f.Fix, Step{
			Text: "Do not remove the finalizer of the VolumeAttachment",
			Risk: "the volume may still be attached: another node could then write to it at the same time",
		})
	}
	return f
}

// unusedAttachment finds a volume that stays attached to a node that is gone, or that no pod on the
// node uses.
func (c *Cluster) unusedAttachment(va *storagev1.VolumeAttachment) []Finding {
	if va.Spec.Source.PersistentVolumeName == nil || c.lacks(Node) || c.lacks(Pod) {
		return nil
	}
	f := findingAbout(attachmentRef(va), nil)
	pv := c.index.volumes[*va.Spec.Source.PersistentVolumeName]
	node := c.index.nodes[va.Spec.NodeName]
	switch {
	case pv == nil && !c.lacks(Volume):
		return []Finding{attachedToNothing(va, f)}
	case node == nil:
		f = f.about(Ref{Kind: Node, Name: va.Spec.NodeName}).waits(verdict.AttachmentOrphaned, Itself,
			"the attach-detach controller to detach the volume: node %s does not exist any more", va.Spec.NodeName)
		f.Evidence = []Evidence{c.nodeEvidence(va.Spec.NodeName)}
		return []Finding{f}
	case pv == nil || pv.Spec.CSI == nil:
		return nil
	}
	decided, _, unread := c.decideAttachment(pv, node.Name, f.Object)
	if unread != nil {
		return nil
	}
	f = f.by(decided, "")
	switch decided.Reason {
	case verdict.AttachmentForeign:
		f = f.waits(verdict.AttachmentForeign, Administrator,
			"the program that created it to delete it: no pod on the node uses the volume, and the attach-detach "+
				"controller deletes only VolumeAttachments that it created")
		f.Evidence = []Evidence{{
			attachmentRef(va), "metadata.name", va.Name,
			"the name that the attach-detach controller gives: " +
				names.AttachmentName(pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver, node.Name),
		}}
		f.Fix = []Step{{
			Text:    "Delete the VolumeAttachment once it is known that no other program needs it",
			Command: shell.Command("kubectl delete volumeattachment %s", va.Name),
			Risk:    "a program that made it on purpose loses the volume",
		}}
		return []Finding{f}
	case verdict.DetachAwaitsUnmount:
		f = f.waits(verdict.DetachAwaitsUnmount, Itself,
			"the kubelet of node %s to unmount the volume, which no pod there uses any more", node.Name)
		f.Evidence = []Evidence{{
			Ref{Kind: Node, Name: node.Name}, "status.volumesInUse", string(uniqueName(pv)), "absent",
		}}
		if !isReady(node) {
			f.Actor, f.Fix = Administrator, c.nodeFix(node.Name)
			f.Evidence = append(f.Evidence, c.nodeEvidence(node.Name))
		}
		return []Finding{f}
	default:
		return nil
	}
}

// attachedToNothing is about a VolumeAttachment whose PersistentVolume is gone.
func attachedToNothing(va *storagev1.VolumeAttachment, f Finding) Finding {
	f = f.waits(verdict.AttachmentOrphaned, Administrator,
		"a PersistentVolume that exists: the one that it names is gone, and with it the volume's handle")
	f.Evidence = []Evidence{{
		attachmentRef(va), "spec.source.persistentVolumeName", *va.Spec.Source.PersistentVolumeName,
		"a PersistentVolume that exists",
	}}
	f.Fix = []Step{{
		Text:    "Detach the volume on the backend, then delete the VolumeAttachment",
		Command: shell.Command("kubectl delete volumeattachment %s", va.Name),
		Risk:    "make sure on the backend that the node does not have the volume any more",
	}}
	return f
}
