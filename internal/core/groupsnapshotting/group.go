package groupsnapshotting

import (
	"fmt"
	"slices"
	"strings"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/core/verdict"
)

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

func finding(reason verdict.Reason, format string, args ...any) verdict.Finding {
	return verdict.Finding{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// DecideGroup says what the snapshot-controller does for a VolumeGroupSnapshot, its content and its
// members.
func DecideGroup(s Group, now time.Time) Verdict {
	g := s.Snapshot
	switch {
	case g == nil:
		return nothing{Finding: finding(verdict.GroupIdle, "the VolumeGroupSnapshot does not exist")}
	case g.DeletionTimestamp != nil:
		return removeGroup(s)
	case isDynamic(g) == (ptr.Deref(g.Spec.Source.VolumeGroupSnapshotContentName, "") != ""):
		return fail(s, now, finding(verdict.GroupInvalid,
			"exactly one of spec.source.selector and volumeGroupSnapshotContentName must be set"))
	case s.Content == nil && (IsReady(g) || !isDynamic(g)):
		return fail(s, now, finding(verdict.GroupContentAbsent, "VolumeGroupSnapshotContent %q does not exist", ContentName(g)))
	case s.Content == nil && g.Status != nil && g.Status.CreationTime != nil:
		// The snapshots were taken. Those that are taken now would have other data.
		return fail(s, now, finding(verdict.GroupContentAbsent, "VolumeGroupSnapshotContent %q is missing", ContentName(g)))
	case s.Content == nil:
		return begin(s, now)
	}
	return follow(s, now)
}

// follow binds the group to its content, makes the members and copies what the sidecar learned of
// the driver (SN-G3).
func follow(s Group, now time.Time) Verdict {
	g, c := s.Snapshot, s.Content
	ref := c.Spec.VolumeGroupSnapshotRef
	switch {
	case isDynamic(g) != (c.Spec.Source.GroupSnapshotHandles == nil):
		return fail(s, now, finding(verdict.GroupContentUnfit,
			"VolumeGroupSnapshotContent %q has the source of the other kind", c.Name))
	case ref.Namespace != g.Namespace, ref.Name != g.Name, ref.UID != g.UID && (isDynamic(g) || ref.UID != ""):
		return fail(s, now, finding(verdict.GroupContentTaken,
			"VolumeGroupSnapshotContent %q refers to VolumeGroupSnapshot %s/%s with uid %q", c.Name, ref.Namespace, ref.Name, ref.UID))
	}
	var actions []Action
	if !slices.Contains(g.Finalizers, names.FinalizerGroupSnapshot) {
		actions = append(actions, PrepareGroup{})
	}
	if ref.UID == "" || c.DeletionTimestamp == nil && !slices.Contains(c.Finalizers, names.FinalizerGroupContent) {
		actions = append(actions, BindContent{ptr.Deref(g.Spec.VolumeGroupSnapshotClassName, "")})
	}
	actions = append(actions, members(s)...)
	status := copied(s)
	if !sameStatus(g.Status, status) {
		actions = append(actions, WriteStatus{status})
	}
	return progress(s, status, actions)
}

// progress names how far the group is.
func progress(s Group, status *groupv1.VolumeGroupSnapshotStatus, actions []Action) Verdict {
	key := s.Key.String()
	first := finding(verdict.GroupAwaitsDriver, "the driver has not taken the snapshots yet")
	var then Verdict = wait{Finding: first}
	if status.CreationTime != nil && (s.Snapshot.Status == nil || s.Snapshot.Status.CreationTime == nil) {
		first = finding(verdict.GroupTaken, "GroupSnapshot %s was successfully created by the CSI driver.", key)
	}
	if ptr.Deref(status.ReadyToUse, false) {
		then = nothing{Finding: finding(verdict.GroupIdle, "the group is ready")}
		if !IsReady(s.Snapshot) {
			then = nothing{Finding: finding(verdict.GroupUsable, "GroupSnapshot %s is ready to use.", key)}
		}
	}
	return verdict.DoFirst(first, actions, then)
}

// copied is the status that follows from the content. The group is ready only when each snapshot
// that the content lists has its member.
func copied(s Group) *groupv1.VolumeGroupSnapshotStatus {
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

func sameStatus(a, b *groupv1.VolumeGroupSnapshotStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return progressOf(a).IsSame(progressOf(b))
}

func progressOf(s *groupv1.VolumeGroupSnapshotStatus) snapshotting.Progress {
	return snapshotting.Progress{
		Content: s.BoundVolumeGroupSnapshotContentName, Created: s.CreationTime, Ready: s.ReadyToUse, Error: s.Error,
	}
}

// fail writes the error into the status, once per message, and refuses.
func fail(s Group, now time.Time, f verdict.Finding) Verdict {
	then := refuse{Finding: f}
	status := &groupv1.VolumeGroupSnapshotStatus{}
	if s.Snapshot.Status != nil {
		status = s.Snapshot.Status.DeepCopy()
	}
	if f.Reason != verdict.GroupClassNotFound && f.Reason != verdict.GroupClassUnclear { // SN-G1, SN-Q2: as upstream
		status.ReadyToUse = new(false)
	}
	status.Error = snapshotting.NewStatusError(f.Text(), now)
	if sameStatus(s.Snapshot.Status, status) {
		return then
	}
	return do{Finding: f, Actions: []Action{WriteStatus{status}}, Then: then}
}

// removeGroup deletes content and members, and lets the group go when the content is gone or kept
// (SN-G4).
func removeGroup(s Group) Verdict {
	deleting := finding(verdict.GroupDeleting, "the VolumeGroupSnapshot is being deleted")
	if !slices.Contains(s.Snapshot.Finalizers, names.FinalizerGroupSnapshot) {
		return nothing{Finding: deleting}
	}
	if len(s.Restoring) > 0 {
		return refuse{Finding: finding(verdict.GroupRestoring,
			"a member is being used to restore a PVC: %s", strings.Join(s.Restoring, ", "))}
	}
	var actions []Action
	held := false
	if c := s.Content; c != nil && refersTo(c, s.Snapshot) {
		if _, marked := c.Annotations[names.AnnGroupBeingDeleted]; !marked {
			actions = append(actions, MarkDeleting{})
		}
		if held = c.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete; held && c.DeletionTimestamp == nil {
			actions = append(actions, DeleteContent{})
		}
	}
	for _, name := range s.Owned {
		actions = append(actions, DeleteMember{name})
	}
	var then Verdict = nothing{Finding: deleting}
	switch {
	case held:
		then = wait{Finding: finding(verdict.GroupDeleting, "VolumeGroupSnapshotContent %q is being deleted first", s.Content.Name)}
	default:
		actions = append(actions, ReleaseGroup{})
	}
	return verdict.DoFirst(deleting, actions, then)
}

// AfterMark decides again about a terminating group if the response to MarkDeleting shows another
// deletion policy than the cached content had; nil if it does not.
func AfterMark(s Group, marked *groupv1.VolumeGroupSnapshotContent) Verdict {
	if marked.Spec.DeletionPolicy == s.Content.Spec.DeletionPolicy {
		return nil
	}
	s.Content = marked
	return removeGroup(s)
}

func refersTo(c *groupv1.VolumeGroupSnapshotContent, g *groupv1.VolumeGroupSnapshot) bool {
	ref := c.Spec.VolumeGroupSnapshotRef
	return ref.Namespace == g.Namespace && ref.Name == g.Name && ref.UID == g.UID
}
