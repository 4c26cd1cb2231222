package publishing

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// Decide says what to do for a VolumeAttachment. now is compared with the time of the next attempt
// only.
func Decide(s Snapshot, now time.Time) Verdict {
	va := s.Attachment
	switch {
	case va == nil || va.Spec.Attacher != s.Driver.Name:
		return Gone()
	case va.DeletionTimestamp != nil && !hasFinalizer(s) && !s.Mismatch:
		return idle(verdict.AttachmentReleased, "the volume is detached, and the VolumeAttachment goes")
	}
	v := decide(s)
	todo, acts := v.(do)
	switch {
	case !acts:
	case now.Before(s.Failed.Next) && s.Failed.Inputs == Inputs(va) && !s.MismatchDue:
		return wait{
			Finding: verdict.Because(todo.Reason, "the last attempt failed, and the next one is not due yet"),
			Until:   s.Failed.Next,
		}
	case s.Failed.Count > 0 && !now.Before(s.Failed.Next) && !s.IsLive:
		// A stale cache may show a VolumeAttachment that the attacher of another process has released.
		return verdict.MustRead[Action](verdict.Ref{What: RefLiveAttachment, Name: va.Name})
	}
	return v
}

func decide(s Snapshot) Verdict {
	va := s.Attachment
	switch {
	case va.DeletionTimestamp != nil:
		return detach(s)
	case va.Status.Attached && !s.Mismatch:
		return idle(verdict.AttachmentDone, "the volume is attached")
	case !s.Driver.Publishes: // AT-T1
		done := verdict.Because(verdict.AttachmentDone, "the driver attaches nothing, so the volume counts as attached")
		return do{Finding: done, Actions: []Action{MarkAttached{}}, Then: nothing{Finding: done}}
	}
	return attach(s)
}

// attach is AT-A1 to AT-A13, in upstream's order: the first error is the one in the status.
func attach(s Snapshot) Verdict {
	if mistake := mistakeIn(s); mistake != "" {
		return failed(s, mistake)
	}
	source, pv := s.Attachment.Spec.Source, s.Volume
	node, problem := nodeID(s)
	if problem != "" {
		// A node that has just joined has no CSINode entry yet: its event starts the attach, and no
		// error makes the attach-detach controller back off (AT-H1, AT-H13).
		return wait{Finding: verdict.Because(verdict.AttachmentNodeAwaited, "%s", problem)}
	}
	if objects.IsExclusive(pv) && !s.Attachment.Status.Attached {
		if !s.HasOthers {
			return verdict.MustRead[Action](verdict.Ref{What: RefOthers, Name: pv.Name})
		}
		if held := held(s); held != nil {
			return held
		}
	}
	attaching := verdict.Because(
		verdict.Attaching, "attaching PersistentVolume %s to node %s", pv.Name, s.Attachment.Spec.NodeName,
	)
	var actions []Action
	if source.PersistentVolumeName != nil && !slices.Contains(pv.Finalizers, names.AttacherFinalizer(s.Driver.Name)) {
		actions = append(actions, ProtectVolume{})
	}
	if va := s.Attachment; !hasFinalizer(s) || va.Annotations[names.AnnAttachedNodeID] != node ||
		va.Annotations[names.AnnVolumeHandle] != pv.Spec.CSI.VolumeHandle {
		actions = append(actions, Prepare{NodeID: node, Handle: pv.Spec.CSI.VolumeHandle})
		return do{Finding: attaching, Actions: actions, Then: wait{Finding: attaching}}
	}
	return do{Finding: attaching, Actions: append(actions, Publish{NodeID: node})}
}

// mistakeIn is why a volume cannot be attached, whatever the driver says; empty if it can.
func mistakeIn(s Snapshot) string {
	source, pv := s.Attachment.Spec.Source, s.Volume
	switch {
	case source.PersistentVolumeName == nil && source.InlineVolumeSpec == nil:
		return "neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source"
	case source.PersistentVolumeName != nil && source.InlineVolumeSpec != nil:
		return "both InlineCSIVolumeSource and PersistentVolumeName specified in VA source"
	case source.PersistentVolumeName == nil && source.InlineVolumeSpec.CSI == nil:
		return "inline volume spec contains nil CSI source"
	case pv == nil:
		return fmt.Sprintf("persistentvolume %q not found", ptr.Deref(source.PersistentVolumeName, ""))
	case pv.DeletionTimestamp != nil:
		return fmt.Sprintf("PersistentVolume %q is marked for deletion", pv.Name)
	case s.Untranslated != "":
		return "failed to translate in tree pv to CSI: " + s.Untranslated
	case pv.Spec.CSI == nil:
		return "pv spec contained non-csi source that was not migrated"
	}
	return ""
}

// ForNew returns what is written onto a VolumeAttachment that is about to be created, from the decision
// about it, if it can be attached at once.
func ForNew(v Verdict) (Prepare, bool) {
	todo, acts := v.(do)
	if !acts {
		return Prepare{}, false
	}
	for _, a := range todo.Actions {
		if prepare, ok := a.(Prepare); ok {
			return prepare, true
		}
	}
	return Prepare{}, false
}

// nodeID returns the driver's id of the node for an attach. A volume that was asked for with
// another id keeps it until it is unpublished: a node that was created again under its name is
// another machine (AT-H2).
func nodeID(s Snapshot) (id, problem string) {
	if before := s.Attachment.Annotations[names.AnnAttachedNodeID]; before != "" && hasFinalizer(s) {
		return before, ""
	}
	if s.Node == nil {
		return "", fmt.Sprintf("csinode.storage.k8s.io %q not found", s.Attachment.Spec.NodeName)
	}
	if id, known := registeredID(s); known {
		return id, ""
	}
	return "", fmt.Sprintf("CSINode %s does not contain driver %s", s.Node.Name, s.Driver.Name)
}

// registeredID returns the id under which the driver is registered on the node.
func registeredID(s Snapshot) (id string, known bool) {
	for _, d := range s.Node.Spec.Drivers {
		if d.Name == s.Driver.Name {
			return d.NodeID, true
		}
	}
	return "", false
}

// detach uses what was written before the attach (AT-H2).
func detach(s Snapshot) Verdict {
	handle, node := publishedAs(s)
	switch {
	case !s.Driver.Publishes: // AT-H8: the driver lost the capability, so nothing is attached any more
		return released(s, nil)
	case handle == "":
		return failed(
			s,
			"the PersistentVolume is gone, and the VolumeAttachment does not have the volume's handle; detach the "+
				"volume on the backend, then remove the finalizer "+names.AttacherFinalizer(s.Driver.Name),
		)
	case node == "":
		return failed(
			s,
			fmt.Sprintf(
				"neither CSINode %q nor the annotation %s says which node the volume was attached to",
				s.Attachment.Spec.NodeName,
				names.AnnAttachedNodeID,
			),
		)
	}
	return released(s, []Action{Unpublish{Handle: handle, NodeID: node}})
}

func released(s Snapshot, first []Action) Verdict {
	actions, others := slices.Clone(first), len(s.Attachment.Finalizers)
	if hasFinalizer(s) {
		actions, others = append(actions, Release{}), others-1
	}
	if s.Attachment.Status.Attached && others > 0 {
		actions = append(actions, MarkDetached{})
	}
	done := verdict.Because(
		verdict.AttachmentReleased, "the volume is detached from node %s", s.Attachment.Spec.NodeName,
	)
	return do{
		Finding: verdict.Because(verdict.Detaching, "detaching the volume from node %s", s.Attachment.Spec.NodeName),
		Actions: actions, Then: nothing{Finding: done},
	}
}

// AfterPrepare asks for what the next decision needs: the finalizer is written, and whether another
// VolumeAttachment has the volume is asked again, so that of two at the same time at most one goes on.
// written is false for a VolumeAttachment that is gone: a publish without the finalizer would be
// detached by no process.
func AfterPrepare(s Snapshot, written bool) Verdict {
	if !written {
		return Gone()
	}
	refs := []verdict.Ref{{What: RefAttachment, Name: s.Attachment.Name}}
	if pv := s.Attachment.Spec.Source.PersistentVolumeName; pv != nil {
		refs = append(refs, verdict.Ref{What: RefVolume, Name: *pv})
	}
	if s.HasOthers {
		refs = append(refs, verdict.Ref{What: RefOthers, Name: s.Volume.Name})
	}
	return verdict.MustRead[Action](refs...)
}

// held returns nil if an exclusive volume may be published. The volume may be at the node of another
// VolumeAttachment that has the attacher's finalizer, whatever its status, and awaits the end of that
// one: the attach-detach controller keeps the order, but a VolumeAttachment that its previous leader
// created can arrive late, or a user can create one.
func held(s Snapshot) Verdict {
	finalizer := names.AttacherFinalizer(s.Driver.Name)
	for _, other := range s.Others {
		if other.Spec.NodeName == s.Attachment.Spec.NodeName || !slices.Contains(other.Finalizers, finalizer) {
			continue
		}
		held := verdict.Because(
			verdict.AttachmentHeld,
			"the volume may be attached to one node only, and VolumeAttachment %s has it, or had asked for it, on "+
				"node %s",
			other.Name, other.Spec.NodeName,
		)
		return markOnce(s, MarkFailed{Message: Cut(held.Message)}, wait{Finding: held})
	}
	return nil
}

// AfterPublish says what follows after the driver was asked to publish.
func AfterPublish(s Snapshot, metadata map[string]string, failure *csispec.Failure) Verdict {
	if failure != nil {
		return callFailed(s, *failure)
	}
	done := verdict.Because(verdict.AttachmentDone, "the volume is attached to node %s", s.Attachment.Spec.NodeName)
	return do{Finding: done, Actions: []Action{MarkAttached{Metadata: metadata}}, Then: nothing{Finding: done}}
}

// AfterUnpublish returns nil if the driver has unpublished the volume.
func AfterUnpublish(s Snapshot, failure *csispec.Failure) Verdict {
	if failure == nil {
		return nil
	}
	return callFailed(s, *failure)
}

func callFailed(s Snapshot, f csispec.Failure) Verdict {
	mark := MarkFailed{Message: Cut(f.Words())}
	if !f.NoAnswer && s.Attachment.DeletionTimestamp == nil {
		code := int32(f.Code) //nolint:gosec // gRPC codes are below 17
		mark.Code = &code
	}
	finding := verdict.Finding{Reason: verdict.AttachmentFailed, Message: f.Words(), Code: f.CodeName()}
	return markOnce(s, mark, refuse{Finding: finding})
}

// failed is about a mistake that is found before the driver is asked.
func failed(s Snapshot, message string) Verdict {
	finding := verdict.Because(verdict.AttachmentFailed, "%s", message)
	return markOnce(s, MarkFailed{Message: Cut(message)}, refuse{Finding: finding})
}

// markOnce leaves the status alone if it has this very error: a retry that fails in the same way
// writes nothing (AT-H16).
func markOnce(s Snapshot, mark MarkFailed, then Verdict) Verdict {
	had := s.Attachment.Status.AttachError
	if s.Attachment.DeletionTimestamp != nil {
		had = s.Attachment.Status.DetachError
	}
	if had != nil && had.Message == mark.Message {
		return then
	}
	return do{Finding: then.Because(), Actions: []Action{mark}, Then: then}
}

// Gone is the answer about a VolumeAttachment that does not exist, or that another driver's attacher
// works on.
func Gone() Verdict {
	return idle(verdict.AttachmentNotOurs, "the VolumeAttachment does not exist, or another driver attaches it")
}

func hasFinalizer(s Snapshot) bool {
	return slices.Contains(s.Attachment.Finalizers, names.AttacherFinalizer(s.Driver.Name))
}

func idle(reason verdict.Reason, message string) Verdict {
	return nothing{Finding: verdict.Because(reason, "%s", message)}
}
