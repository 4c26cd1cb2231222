package snapshotting

import (
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// heldFinalizers returns the finalizers of the controller that an object has.
func heldFinalizers(o *requestView) []string {
	ours := []string{o.k.finalizer, names.FinalizerSnapshotBound, names.FinalizerSnapshotInGroup}
	return slices.DeleteFunc(ours, func(f string) bool { return !slices.Contains(o.Finalizers, f) })
}

// isHeld reports whether an object is being deleted and does not wait for other controllers only
// (SN-D2).
func (o *requestView) isHeld() bool { return o.DeletionTimestamp != nil && len(heldFinalizers(o)) > 0 }

// remove deletes members and content (section 8 of the rows, SN-G4). The finalizers stay until the
// content is gone or kept and the provisioner needs the VolumeSnapshot for no restore, and are
// removed in one write.
func (s view) remove() Verdict {
	c, held := s.content, heldFinalizers(s.object)
	deleting := verdict.Because(verdict.SnapshotDeleting, "the %s is being deleted", s.k.objectKind())
	refers := c.refersTo(s.object)
	switch {
	case len(held) == 0: // SN-D2
		return nothing{Finding: deleting}
	case len(s.Restoring) > 0 && (refers || s.k.isGroup()): // SN-D3
		return refuse{Finding: verdict.Because(verdict.SnapshotRestoring,
			"%s is being used to restore a PVC: %s", s.k.title, strings.Join(s.Restoring, ", "))}
	}
	goes := refers && c.policy == snapshotv1.VolumeSnapshotContentDelete
	actions := s.removeContent(refers, goes)
	for _, name := range s.Owned {
		actions = append(actions, DeleteMember{name})
	}
	if goes {
		return verdict.DoFirst[Action](deleting, actions, wait{Finding: verdict.Because(
			verdict.SnapshotDeleting, "%s %q is being deleted first", s.k.contentKind(), c.Name,
		)})
	}
	actions = append(actions, s.releaseClaim()...)
	if hasFinalizer(s.object, names.FinalizerRestoreSource) {
		// The provisioner may only replace the object (RB-5): a write now would be a conflict.
		return verdict.DoFirst[Action](deleting, actions, wait{Finding: verdict.Because(
			verdict.SnapshotDeleting, "the external-provisioner removes its finalizer first",
		)})
	}
	return do{Finding: deleting, Actions: append(actions, ReleaseSnapshot{held}), Then: nothing{Finding: deleting}}
}

// removeContent marks a content that refers to the object, and deletes one that goes with it.
func (s view) removeContent(refers, goes bool) (actions []Action) {
	c := s.content
	inMemory := goes && s.isTogether(c) && (s.Deleting || c.DeletionTimestamp == nil)
	if refers && !inMemory && !has(c.Annotations, s.k.deleting) { // SN-D5
		actions = append(actions, MarkDeleting{s.k.deleting})
	}
	if goes && c.DeletionTimestamp == nil {
		actions = append(actions, DeleteContent{InMemory: inMemory})
	}
	return actions
}

// isTogether reports whether the csi-snapshotter of a content runs in this process.
func (s view) isTogether(c *contentView) bool {
	return s.Together != "" && c.driver == s.Together && !s.k.isGroup()
}

// AfterMark decides again about a terminating object if the response to MarkDeleting shows another
// deletion policy than the cached content had; nil if it does not. Otherwise a stale cache would leak
// a snapshot whose policy was just changed to Delete, or delete one that is to be kept.
func AfterMark[O Requests, C Contents, L Classes](s State[O, C, L], marked C) Verdict {
	if contentOf(marked).policy == contentOf(s.Content).policy {
		return nil
	}
	s.Content = marked
	return viewOf(s, time.Time{}).remove()
}
