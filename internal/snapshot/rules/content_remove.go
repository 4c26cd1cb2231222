package snapshotting

import (
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// IsRemovable reports whether a content is being deleted and no VolumeSnapshot needs it any more
// (SN-E1, SN-E4). That does not change any more.
func IsRemovable(c *snapshotv1.VolumeSnapshotContent) bool {
	return c.DeletionTimestamp != nil && (isUnbound(c) || has(c.Annotations, names.AnnSnapshotBeingDeleted))
}

// isUnbound reports whether a pre-provisioned content belongs to no VolumeSnapshot yet.
func isUnbound(c *snapshotv1.VolumeSnapshotContent) bool {
	return c.Spec.Source.SnapshotHandle != nil && c.Spec.VolumeSnapshotRef.UID == ""
}

// LacksFinalizer reports whether a content needs the finalizer and does not have it (SN-V3). A
// pre-provisioned content of policy Delete needs it before it is bound: without it, its deletion
// leaks the snapshot.
func LacksFinalizer(c *snapshotv1.VolumeSnapshotContent) bool {
	return c.DeletionTimestamp == nil && !slices.Contains(c.Finalizers, names.FinalizerSnapshotContent) &&
		(c.Spec.VolumeSnapshotRef.UID != "" || isUnbound(c) && HandleToDelete(c) != "")
}

// Handle returns the handle of a content's snapshot; empty while it is not known, and for another
// driver's.
func Handle(c *snapshotv1.VolumeSnapshotContent, driver string) string {
	if c.Spec.Driver != driver {
		return ""
	}
	return handle(c)
}

// HandleToDelete returns the handle of the snapshot that is deleted with the content; empty for
// none.
func HandleToDelete(c *snapshotv1.VolumeSnapshotContent) string {
	// A content of policy Delete whose snapshot was never confirmed is deleted by the handle in its
	// spec, where upstream leaves the snapshot behind (SN-E3).
	if c.Spec.DeletionPolicy != snapshotv1.VolumeSnapshotContentDelete || isMember(c) {
		return ""
	}
	return handle(c)
}

// remove deletes the snapshot, or keeps it, and lets the content go (section 10 of the rows).
func remove(s ContentSnapshot, now time.Time) ContentVerdict {
	c := s.Content
	if !IsRemovable(c) {
		return contentWait{Finding: verdict.Because(verdict.ContentAwaitsDeletion,
			"the VolumeSnapshot %s/%s is not being deleted",
			c.Spec.VolumeSnapshotRef.Namespace, c.Spec.VolumeSnapshotRef.Name)}
	}
	known := HandleToDelete(c)
	switch {
	case known == "":
		return contentDo{
			Finding: verdict.Because(
				verdict.ContentDeleting, "there is no snapshot to delete with the VolumeSnapshotContent",
			),
			Actions: []ContentAction{ReleaseContent{}}, Then: single.gone(),
		}
	case s.NotBefore.After(now):
		return awaitRetry(s.NotBefore)
	case !s.SharingRead:
		return contentDo{
			Finding: verdict.Because(
				verdict.ContentDeleting, "the VolumeSnapshotContents with the snapshot %q are listed", known,
			),
			Actions: []ContentAction{ListSameHandle{known}},
		}
	}
	if i := slices.IndexFunc(s.SameHandle, NeedsSnapshot); i >= 0 {
		return shared(c, s.SameHandle[i])
	}
	return contentDo{
		Finding: verdict.Because(verdict.ContentDeleting, "the driver is asked to delete the snapshot %q", known),
		Actions: []ContentAction{DeleteSnapshot{Handle: known, Secret: deletionSecret(c)}},
	}
}

// AfterList decides about a content that is being deleted once all contents were listed live.
func AfterList(s ContentSnapshot, sameHandle []*snapshotv1.VolumeSnapshotContent, now time.Time) ContentVerdict {
	s.SharingRead, s.SameHandle = true, sameHandle
	return remove(s, now)
}

// NeedsSnapshot reports whether another content with the same handle keeps the snapshot (D-37). Of
// two contents the one that became [IsRemovable] later always sees that the other one is, so the
// last of them deletes the snapshot. The snapshot of a member is deleted with its group.
func NeedsSnapshot(other *snapshotv1.VolumeSnapshotContent) bool {
	return isMember(other) || !IsRemovable(other)
}

// shared releases a content without its snapshot, which stays with the other content.
func shared(c, other *snapshotv1.VolumeSnapshotContent) ContentVerdict {
	ref := other.Spec.VolumeSnapshotRef
	return contentDo{
		Finding: verdict.Finding{
			Reason: verdict.ContentShared,
			Message: fmt.Sprintf(
				"the snapshot %q is not deleted with VolumeSnapshotContent %q: "+
					"VolumeSnapshotContent %q of VolumeSnapshot %s/%s has the same handle and deletion policy %s",
				handle(c), c.Name, other.Name, ref.Namespace, ref.Name, other.Spec.DeletionPolicy,
			),
			Fix: "The last content with the handle decides about the snapshot",
		},
		Actions: []ContentAction{ReleaseContent{}}, Then: single.gone(),
	}
}

// deletionFix says what can be done about a deletion that fails for want of its secret; empty if the
// secret is not the cause. The namespace of the secret may be terminating, so that nothing can be
// created in it.
func deletionFix(f Failure, k contentKind, content string) string {
	if f.Secret.Name == "" {
		return ""
	}
	return fmt.Sprintf(
		"If the driver needs the secret %q, create it and let csi-snapshotter read it, "+
			"or name another one in the annotations %s and %s of %s %q",
		f.Secret, k.secretName, k.secretNamespace, k.kind, content,
	)
}

// creationFix says what can be done about a content that is being deleted while the outcome of a
// call that creates is unknown, and the call cannot be repeated: the snapshot would be leaked if the
// content went without the outcome.
func creationFix(f Failure, k contentKind, content string) string {
	first := "Create what is missing again"
	if f.Secret.Name != "" {
		first = fmt.Sprintf("Create the secret %q again and let csi-snapshotter read it, "+
			"or name another one in the annotations %s and %s", f.Secret, k.secretName, k.secretNamespace)
	}
	return fmt.Sprintf("%s %q is being deleted, and an earlier call may have made its snapshot. %s; "+
		"or remove the annotation %s, after which a snapshot that the driver has made stays in the backend",
		k.kind, content, first, k.creating)
}
