package attachment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// tellAgain is after how long the event about an attach error or a multi-attach conflict is repeated
// while it lasts.
const tellAgain = 5 * time.Minute

// conflict is for an exclusive volume that another node has (4.8). Since Kubernetes 1.37 the text
// is that of a wait and not of an error.
func (p *plan) conflict(node, other string) {
	message := fmt.Sprintf(
		"Waiting for detach for volume %q %s", p.name(), usedBy(p.wants[node], p.wants[other]),
	)
	p.measured.Conflicts++
	p.act(verdict.MultiAttach, message, Tell{
		Pods: p.wants[node], Event: Failed, Message: message, State: "conflict " + other, Again: tellAgain,
	})
	p.wait(
		verdict.MultiAttach,
		p.now.Add(tellAgain),
		fmt.Sprintf("the volume is attached to node %s, or may be", other),
	)
}

// usedBy names the pods on the other node. Names of pods in other namespaces are not shown.
func usedBy(mine, theirs []*corev1.Pod) string {
	if len(theirs) == 0 {
		return "Volume is already exclusively attached to one node and can't be attached to another"
	}
	var shown []string
	hidden := 0
	for _, pod := range theirs {
		if slices.ContainsFunc(mine, func(m *corev1.Pod) bool { return m.Namespace == pod.Namespace }) {
			shown = append(shown, pod.Name)
		} else {
			hidden++
		}
	}
	switch {
	case hidden == 0:
		return "Volume is already used by pod(s) " + strings.Join(shown, ", ")
	case len(shown) == 0:
		return fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", hidden)
	}
	return fmt.Sprintf(
		"Volume is already used by pod(s) %s and %d pod(s) in different namespaces",
		strings.Join(shown, ", "),
		hidden,
	)
}

// orphan is for a VolumeAttachment whose handle is not known: its PersistentVolume is gone, and no
// node names a volume that would give it this name. It is deleted when the audit has found it
// unused and its name is one that this controller gives.
func orphan(s Snapshot, now time.Time) Verdict {
	if s.Known != nil {
		known := verdict.Because(verdict.AttachmentOrphaned, "the handle of the volume has become known")
		return do{Finding: known, Actions: []Action{Requeue{*s.Known}}, Then: nothing{Finding: known}}
	}
	if len(s.Attachments) == 0 {
		return nothing{Finding: verdict.Because(verdict.AttachmentGone, "the VolumeAttachment does not exist")}
	}
	va := s.Attachments[0]
	unaudited := wait{Finding: verdict.Because(
		verdict.AttachmentOrphaned, "the PersistentVolume is gone; the next audit checks once more",
	)}
	switch {
	case va.DeletionTimestamp != nil:
		return wait{Finding: verdict.Because(verdict.AttachUnderWay, "driver %q detaches the volume", va.Spec.Attacher)}
	case !names.IsAttachmentName(va.Name):
		return wait{
			Finding: verdict.Because(verdict.AttachmentForeign, "the VolumeAttachment was not made by this controller"),
		}
	case s.UnusedSince.IsZero() || now.Sub(s.UnusedSince) < max(s.Rules.AuditEvery, time.Second):
		return unaudited
	}
	name := ptr.Deref(va.Spec.Source.PersistentVolumeName, "")
	switch pv, read := s.Live[name]; {
	case !read:
		return verdict.MustRead[Action](verdict.Ref{What: RefVolume, Name: name})
	case pv != nil:
		return unaudited
	}
	done := verdict.Because(verdict.AttachmentOrphaned, "the PersistentVolume is gone and no node uses the volume")
	return do{Finding: done, Actions: []Action{Delete{Attachment: va}}, Then: wait{Finding: done}}
}
