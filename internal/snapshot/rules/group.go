package snapshotting

import (
	"slices"
	"strings"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

type (
	groupNothing = verdict.Nothing[GroupAction]
	groupWait    = verdict.Wait[GroupAction]
	groupRefuse  = verdict.Refuse[GroupAction]
	groupDo      = verdict.Do[GroupAction]
)

// DecideGroup says what the snapshot-controller does for a VolumeGroupSnapshot, its content and its
// members.
func DecideGroup(s Group, now time.Time) GroupVerdict {
	g := s.Snapshot
	switch {
	case g == nil:
		absent := groupNothing{Finding: verdict.Because(verdict.SnapshotIdle, "the VolumeGroupSnapshot does not exist")}
		var protect []GroupAction
		for _, content := range s.Unprotected {
			protect = append(protect, GroupProtectContent{content})
		}
		return verdict.DoFirst[GroupAction](absent.Finding, protect, absent)
	case g.DeletionTimestamp != nil:
		return removeGroup(s)
	case isDynamic(g) == (ptr.Deref(g.Spec.Source.VolumeGroupSnapshotContentName, "") != ""):
		return groupFail(s, now, verdict.Because(verdict.GroupInvalid,
			"exactly one of spec.source.selector and volumeGroupSnapshotContentName must be set"))
	case s.Content == nil && (GroupIsReady(g) || !isDynamic(g)):
		return groupFail(s, now, verdict.Because(
			verdict.GroupContentAbsent, "VolumeGroupSnapshotContent %q does not exist", GroupContentName(g),
		))
	case s.Content == nil && g.Status != nil && g.Status.CreationTime != nil:
		// The snapshots were taken. Those that are taken now would have other data.
		return groupFail(s, now, verdict.Because(
			verdict.GroupContentAbsent, "VolumeGroupSnapshotContent %q is missing", GroupContentName(g),
		))
	case s.Content == nil:
		return groupBegin(s, now)
	}
	return groupFollow(s, now)
}

// groupFollow binds the group to its content, makes the members and copies what the sidecar learned of
// the driver (SN-G3).
func groupFollow(s Group, now time.Time) GroupVerdict {
	g, c := s.Snapshot, s.Content
	ref := c.Spec.VolumeGroupSnapshotRef
	switch {
	case isDynamic(g) != (c.Spec.Source.GroupSnapshotHandles == nil):
		return groupFail(s, now, verdict.Because(verdict.GroupContentUnfit,
			"VolumeGroupSnapshotContent %q has the source of the other kind", c.Name))
	case ref.Namespace != g.Namespace, ref.Name != g.Name, ref.UID != g.UID && (isDynamic(g) || ref.UID != ""):
		return groupFail(s, now, verdict.Because(verdict.GroupContentTaken,
			"VolumeGroupSnapshotContent %q refers to VolumeGroupSnapshot %s/%s with uid %q", c.Name, ref.Namespace,
			ref.Name, ref.UID))
	}
	var actions []GroupAction
	if !slices.Contains(g.Finalizers, names.FinalizerGroupSnapshot) {
		actions = append(actions, PrepareGroup{})
	}
	if ref.UID == "" || c.DeletionTimestamp == nil && !slices.Contains(c.Finalizers, names.FinalizerGroupContent) {
		actions = append(actions, GroupBindContent{ptr.Deref(g.Spec.VolumeGroupSnapshotClassName, "")})
	}
	actions = append(actions, members(s)...)
	status := groupCopied(s)
	if !groupSameStatus(g.Status, status) {
		actions = append(actions, GroupWriteStatus{status})
	}
	return groupProgress(s, status, actions)
}

// groupProgress names how far the group is.
func groupProgress(s Group, status *groupv1.VolumeGroupSnapshotStatus, actions []GroupAction) GroupVerdict {
	key := s.Key.String()
	first := verdict.Because(verdict.SnapshotAwaitsDriver, "the driver has not taken the snapshots yet")
	var then GroupVerdict = groupWait{Finding: first}
	if status.CreationTime != nil && (s.Snapshot.Status == nil || s.Snapshot.Status.CreationTime == nil) {
		first = verdict.Because(verdict.GroupTaken, "GroupSnapshot %s was successfully created by the CSI driver.", key)
	}
	if ptr.Deref(status.ReadyToUse, false) {
		then = groupNothing{Finding: verdict.Because(verdict.SnapshotIdle, "the group is ready")}
		if !GroupIsReady(s.Snapshot) {
			then = groupNothing{Finding: verdict.Because(verdict.GroupUsable, "GroupSnapshot %s is ready to use.", key)}
		}
	}
	return verdict.DoFirst(first, actions, then)
}

// groupCopied is the status that follows from the content. The group is ready only when each snapshot
// that the content lists has its member.
func groupCopied(s Group) *groupv1.VolumeGroupSnapshotStatus {
	status := &groupv1.VolumeGroupSnapshotStatus{}
	if s.Snapshot.Status != nil {
		status = s.Snapshot.Status.DeepCopy()
	}
	c := s.Content
	status.BoundVolumeGroupSnapshotContentName = new(c.Name)
	status.ReadyToUse = new(isContentReady(c))
	status.Error = nil
	if c.Status == nil {
		return status
	}
	if status.CreationTime == nil && c.Status.CreationTime != nil {
		status.CreationTime = c.Status.CreationTime.DeepCopy()
	}
	if !isContentReady(c) {
		status.Error = c.Status.Error.DeepCopy()
	}
	return status
}

func groupSameStatus(a, b *groupv1.VolumeGroupSnapshotStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return groupProgressOf(a).IsSame(groupProgressOf(b))
}

func groupProgressOf(s *groupv1.VolumeGroupSnapshotStatus) Progress {
	return Progress{
		Content: s.BoundVolumeGroupSnapshotContentName, Created: s.CreationTime, Ready: s.ReadyToUse, Error: s.Error,
	}
}

// groupFail writes the error into the status, once per message, and refuses.
func groupFail(s Group, now time.Time, f verdict.Finding) GroupVerdict {
	then := groupRefuse{Finding: f}
	status := &groupv1.VolumeGroupSnapshotStatus{}
	if s.Snapshot.Status != nil {
		status = s.Snapshot.Status.DeepCopy()
	}
	if f.Reason != verdict.GroupClassNotFound && f.Reason != verdict.GroupClassUnclear { // SN-G1, SN-Q2: as upstream
		status.ReadyToUse = new(false)
	}
	status.Error = NewStatusError(f.Text(), now)
	if groupSameStatus(s.Snapshot.Status, status) {
		return then
	}
	return groupDo{Finding: f, Actions: []GroupAction{GroupWriteStatus{status}}, Then: then}
}

// removeGroup deletes content and members, and lets the group go when the content is gone or kept
// (SN-G4).
func removeGroup(s Group) GroupVerdict {
	deleting := verdict.Because(verdict.SnapshotDeleting, "the VolumeGroupSnapshot is being deleted")
	if !slices.Contains(s.Snapshot.Finalizers, names.FinalizerGroupSnapshot) {
		return groupNothing{Finding: deleting}
	}
	if len(s.Restoring) > 0 {
		return groupRefuse{Finding: verdict.Because(verdict.SnapshotRestoring,
			"a member is being used to restore a PVC: %s", strings.Join(s.Restoring, ", "))}
	}
	var actions []GroupAction
	held := false
	if c := s.Content; c != nil && groupRefersTo(c, s.Snapshot) {
		if _, marked := c.Annotations[names.AnnGroupBeingDeleted]; !marked {
			actions = append(actions, GroupMarkDeleting{})
		}
		if held = c.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete; held && c.DeletionTimestamp == nil {
			actions = append(actions, GroupDeleteContent{})
		}
	}
	for _, name := range s.Owned {
		actions = append(actions, DeleteMember{name})
	}
	var then GroupVerdict = groupNothing{Finding: deleting}
	switch {
	case held:
		then = groupWait{Finding: verdict.Because(
			verdict.SnapshotDeleting, "VolumeGroupSnapshotContent %q is being deleted first", s.Content.Name,
		)}
	default:
		actions = append(actions, ReleaseGroup{})
	}
	return verdict.DoFirst(deleting, actions, then)
}

// GroupAfterMark decides again about a terminating group if the response to MarkDeleting shows another
// deletion policy than the cached content had; nil if it does not.
func GroupAfterMark(s Group, marked *groupv1.VolumeGroupSnapshotContent) GroupVerdict {
	if marked.Spec.DeletionPolicy == s.Content.Spec.DeletionPolicy {
		return nil
	}
	s.Content = marked
	return removeGroup(s)
}

func groupRefersTo(c *groupv1.VolumeGroupSnapshotContent, g *groupv1.VolumeGroupSnapshot) bool {
	ref := c.Spec.VolumeGroupSnapshotRef
	return ref.Namespace == g.Namespace && ref.Name == g.Name && ref.UID == g.UID
}
