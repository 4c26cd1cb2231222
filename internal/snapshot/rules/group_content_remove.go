package snapshotting

import (
	"fmt"
	"slices"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// isRemovable reports whether a content is being deleted and no VolumeGroupSnapshot needs it any
// more.
func isRemovable(c *groupv1.VolumeGroupSnapshotContent) bool {
	_, marked := c.Annotations[names.AnnGroupBeingDeleted]
	return c.DeletionTimestamp != nil && (groupIsUnbound(c) || marked)
}

// groupIsUnbound reports whether a pre-provisioned content belongs to no VolumeGroupSnapshot yet.
func groupIsUnbound(c *groupv1.VolumeGroupSnapshotContent) bool {
	return c.Spec.Source.GroupSnapshotHandles != nil && c.Spec.VolumeGroupSnapshotRef.UID == ""
}

// GroupLacksFinalizer reports whether a content needs the finalizer and does not have it, also before it
// is bound, as the content of a VolumeSnapshot (SN-V3).
func GroupLacksFinalizer(c *groupv1.VolumeGroupSnapshotContent) bool {
	return c.DeletionTimestamp == nil && !slices.Contains(c.Finalizers, names.FinalizerGroupContent) &&
		(c.Spec.VolumeGroupSnapshotRef.UID != "" ||
			groupIsUnbound(c) && c.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete)
}

// removeContent deletes the group in the backend, or keeps it, and releases the content.
func removeContent(s Content, now time.Time) ContentVerdict {
	c := s.Content
	if !isRemovable(c) {
		return contentWait{Finding: verdict.Because(verdict.ContentAwaitsDeletion,
			"the VolumeGroupSnapshot %s/%s is not being deleted",
			c.Spec.VolumeGroupSnapshotRef.Namespace, c.Spec.VolumeGroupSnapshotRef.Name)}
	}
	known := groupHandle(c)
	switch {
	case c.Spec.DeletionPolicy != snapshotv1.VolumeSnapshotContentDelete || known == "":
		return contentDo{
			Finding: verdict.Because(
				verdict.ContentDeleting, "there is no group to delete with the VolumeGroupSnapshotContent",
			),
			Actions: []ContentAction{ReleaseContent{}}, Then: group.gone(),
		}
	case s.NotBefore.After(now):
		return awaitRetry(s.NotBefore)
	case s.Sharing == nil:
		return contentDo{
			Finding: verdict.Because(
				verdict.ContentDeleting, "the contents with snapshots of the group %q are listed", known,
			),
			Actions: []ContentAction{ListSharing{}},
		}
	}
	if then := sharing(s); then != nil {
		return then
	}
	return contentDo{
		Finding: verdict.Because(verdict.ContentDeleting, "the driver is asked to delete the group %q", known),
		Actions: []ContentAction{
			DeleteGroup{Handle: known, Snapshots: snapshotHandles(c), Secret: groupDeletionSecret(c)},
		},
	}
}

// GroupAfterList decides about a content that is being deleted once the others were listed live.
func GroupAfterList(s Content, others Sharing, now time.Time) ContentVerdict {
	s.Sharing = &others
	return removeContent(s, now)
}

// IsSharing reports whether another content of the driver names the group or one of its snapshots.
func IsSharing(c, other *groupv1.VolumeGroupSnapshotContent) bool {
	return other.UID != c.UID && other.Spec.Driver == c.Spec.Driver &&
		(groupHandle(other) != "" && groupHandle(other) == groupHandle(c) ||
			overlap(snapshotHandles(c), snapshotHandles(other)) != "")
}

// IsSharingSnapshot reports whether the content of a VolumeSnapshot that is no member of the group
// names one of its snapshots.
func IsSharingSnapshot(c *groupv1.VolumeGroupSnapshotContent, other *snapshotv1.VolumeSnapshotContent) bool {
	of := other.Annotations[names.AnnGroupSnapshotHandle]
	if of == "" && other.Status != nil {
		of = ptr.Deref(other.Status.VolumeGroupSnapshotHandle, "")
	}
	return of != groupHandle(c) && slices.Contains(snapshotHandles(c), Handle(other, c.Spec.Driver))
}

func overlap(a, b []string) string {
	for _, handle := range a {
		if handle != "" && slices.Contains(b, handle) {
			return handle
		}
	}
	return ""
}

// sharing returns what follows from the other contents; nil for nothing (D-37). A content with the
// same group takes the group over. One that names a single snapshot of the group cannot, so the
// deletion waits for it.
func sharing(s Content) ContentVerdict {
	c := s.Content
	for _, other := range s.Sharing.Groups {
		if isRemovable(other) {
			continue
		}
		if groupHandle(other) == groupHandle(c) {
			return contentDo{
				Finding: verdict.Finding{
					Reason: verdict.GroupContentShared,
					Message: fmt.Sprintf(
						"the group %q is not deleted with VolumeGroupSnapshotContent %q: "+
							"VolumeGroupSnapshotContent %q has the same handle and deletion policy %s",
						groupHandle(c), c.Name, other.Name, other.Spec.DeletionPolicy,
					),
					Fix: "The last content with the handle decides about the group",
				},
				Actions: []ContentAction{ReleaseContent{}}, Then: group.gone(),
			}
		}
		return held(c, "VolumeGroupSnapshotContent", other.Name, overlap(snapshotHandles(c), snapshotHandles(other)))
	}
	for _, other := range s.Sharing.Contents {
		if !IsRemovable(other) {
			return held(c, "VolumeSnapshotContent", other.Name, Handle(other, c.Spec.Driver))
		}
	}
	return nil
}

func held(c *groupv1.VolumeGroupSnapshotContent, kind, name, handle string) ContentVerdict {
	return contentRefuse{Finding: verdict.Finding{
		Reason: verdict.GroupContentHeld,
		Message: fmt.Sprintf("the group %q is not deleted: %s %q has the handle %q of one of its snapshots",
			groupHandle(c), kind, name, handle),
		Fix: fmt.Sprintf(
			"Delete %q as well, or set the deletion policy of VolumeGroupSnapshotContent %q to Retain", name, c.Name,
		),
	}}
}
