package snapshotting

import (
	"fmt"
	"slices"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// IsRemovable reports whether a content is being deleted and no VolumeSnapshot or VolumeGroupSnapshot
// needs it any more (SN-E1, SN-E4). That does not change any more.
func IsRemovable[C Contents](object C) bool { return contentOf(object).isRemovable() }

func (c *contentView) isRemovable() bool {
	return c.DeletionTimestamp != nil && (c.isUnbound() || has(c.Annotations, c.k.deleting))
}

// isUnbound reports whether a pre-provisioned content belongs to no object yet.
func (c *contentView) isUnbound() bool { return c.given && c.ref.UID == "" }

// lacksFinalizer reports whether a content needs the finalizer and does not have it (SN-V3). A
// pre-provisioned content of policy Delete needs it before it is bound: without it, its deletion
// leaks the snapshot.
func (c *contentView) lacksFinalizer() bool {
	return c.DeletionTimestamp == nil && !hasFinalizer(c, c.k.contentFinalizer) &&
		(c.ref.UID != "" || c.isUnbound() && c.handleToDelete() != "")
}

// Handle returns the handle of a content's snapshot; empty while it is not known, and for another
// driver's.
func Handle[C Contents](object C, driver string) string {
	if c := contentOf(object); c.driver == driver {
		return c.handle
	}
	return ""
}

// handleToDelete returns the handle of what is deleted with the content; empty for nothing.
func (c *contentView) handleToDelete() string {
	// A content of policy Delete whose snapshot was never confirmed is deleted by the handle in its
	// spec, where upstream leaves the snapshot behind (SN-E3).
	if c.policy != snapshotv1.VolumeSnapshotContentDelete || c.member {
		return ""
	}
	return c.handle
}

// remove deletes the snapshot, or keeps it, and releases the content (section 10 of the rows).
func (s sidecarView) remove() ContentVerdict {
	c := s.content
	if !c.isRemovable() {
		return contentWait{Finding: verdict.Because(verdict.ContentAwaitsDeletion,
			"the %s %s/%s is not being deleted", s.k.objectKind(), c.ref.Namespace, c.ref.Name)}
	}
	known := c.handleToDelete()
	switch {
	case known == "":
		return s.release(verdict.Because(verdict.ContentDeleting,
			"there is no %s to delete with the %s", s.k.thing, s.k.contentKind()))
	case s.NotBefore.After(s.now):
		return s.awaitRetry()
	case s.Sharing == nil:
		return verdict.MustRead[ContentAction](verdict.Ref{What: ReadSharing, Name: known})
	}
	if v := s.shared(); v != nil {
		return v
	}
	return contentDo{
		Finding: verdict.Because(verdict.ContentDeleting, "the driver is asked to delete the %s %q", s.k.thing, known),
		Actions: []ContentAction{DeleteSnapshot{Handle: known, Snapshots: c.snapshots, Secret: c.secret()}},
	}
}

// IsSharing reports whether another content of a group, of the same driver, names the group or one of
// its snapshots.
func IsSharing(group, other *groupv1.VolumeGroupSnapshotContent) bool {
	c, o := contentOf(group), contentOf(other)
	return o.UID != c.UID && o.driver == c.driver &&
		(o.handle != "" && o.handle == c.handle || overlap(c.snapshots, o.snapshots) != "")
}

// IsSharingSnapshot reports whether the content of a VolumeSnapshot that is no member of the group
// names one of its snapshots.
func IsSharingSnapshot(group *groupv1.VolumeGroupSnapshotContent, other *snapshotv1.VolumeSnapshotContent) bool {
	c, of := contentOf(group), other.Annotations[names.AnnGroupSnapshotHandle]
	if of == "" && other.Status != nil {
		of = ptr.Deref(other.Status.VolumeGroupSnapshotHandle, "")
	}
	return of != c.handle && slices.Contains(c.snapshots, Handle(other, c.driver))
}

func overlap(a, b []string) string {
	for _, handle := range a {
		if handle != "" && slices.Contains(b, handle) {
			return handle
		}
	}
	return ""
}

// shared returns what follows from the other contents; nil for nothing (D-37). A content with the
// same handle takes the snapshot over. One that names a single snapshot of a group cannot, so the
// deletion of the group waits for it.
func (s sidecarView) shared() ContentVerdict {
	c := s.content
	for _, o := range slices.Concat(eachOf(s.Sharing.Groups, contentOf), eachOf(s.Sharing.Contents, contentOf)) {
		switch {
		case !c.isNeededBy(o):
		case o.k == c.k && (!c.k.isGroup() || o.handle == c.handle):
			return s.release(verdict.Finding{
				Reason: s.k.contentIsShared,
				Message: fmt.Sprintf("the %s %q is not deleted with %s %q: %[3]s %[5]q of %s %s/%s has the same "+
					"handle and deletion policy %s", s.k.thing, c.handle, s.k.contentKind(), c.Name, o.Name,
					s.k.objectKind(), o.ref.Namespace, o.ref.Name, o.policy),
				Fix: "The last content with the handle decides about the " + s.k.thing,
			})
		default:
			return contentRefuse{Finding: verdict.Finding{
				Reason: verdict.GroupContentHeld,
				Message: fmt.Sprintf("the group %q is not deleted: %s %q has the handle %q of one of its snapshots",
					c.handle, o.k.contentKind(), o.Name,
					overlap(c.snapshots, slices.Concat(o.snapshots, []string{o.handle}))),
				Fix: fmt.Sprintf("Delete %q as well, or set the deletion policy of VolumeGroupSnapshotContent %q to "+
					"Retain",
					o.Name, c.Name),
			}}
		}
	}
	return nil
}

// isNeededBy reports whether another content keeps what this one names. Of two contents the one that
// became [IsRemovable] later always sees that the other one is, so the last of them deletes the
// snapshot. The snapshot of a member is deleted with its group.
func (c *contentView) isNeededBy(o *contentView) bool {
	return !o.isRemovable() || o.member && !c.k.isGroup()
}

// deletionFix says what can be done about a deletion that fails for want of its secret; empty if the
// secret is not the cause. The namespace of the secret may be terminating, so that nothing can be
// created in it.
func (c *contentView) deletionFix(f Failure) string {
	if f.Secret.Name == "" {
		return ""
	}
	return fmt.Sprintf(
		"If the driver needs the secret %q, create it and let csi-snapshotter read it, "+
			"or name another one in the annotations %s and %s of %s %q",
		f.Secret, c.k.secretName, c.k.secretNamespace, c.k.contentKind(), c.Name,
	)
}

// creationFix says what can be done about a content that is being deleted while the outcome of a
// call that creates is unknown, and the call cannot be repeated: the snapshot would be leaked if the
// content went without the outcome.
func (c *contentView) creationFix(f Failure) string {
	first := "Create what is missing again"
	if f.Secret.Name != "" {
		first = fmt.Sprintf("Create the secret %q again and let csi-snapshotter read it, "+
			"or name another one in the annotations %s and %s", f.Secret, c.k.secretName, c.k.secretNamespace)
	}
	return fmt.Sprintf("%s %q is being deleted, and an earlier call may have made its snapshot. %s; "+
		"or remove the annotation %s, after which a snapshot that the driver has made stays in the backend",
		c.k.contentKind(), c.Name, first, c.k.creating)
}
