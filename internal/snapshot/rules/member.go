package snapshotting

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/verdict"
)

// GroupState is what is known of the VolumeGroupSnapshot of a member.
type GroupState int

const (
	// GroupUnread is the state while this process does not follow groups: the gate is off, or the
	// cluster does not serve their kinds.
	GroupUnread GroupState = iota
	// GroupAlive is a group that exists and is not being deleted.
	GroupAlive
	// GroupEnding is a group that is being deleted, or gone.
	GroupEnding
)

// decideMember follows the content that the group made for a member (SN-Q6), and removes its
// finalizers with the group's deletion (SN-D4).
func decideMember(s Snapshot, now time.Time) Verdict {
	vs := s.Snapshot
	inGroup := verdict.Because(verdict.SnapshotInGroup, "the VolumeSnapshot belongs to a VolumeGroupSnapshot")
	named := vs.Status != nil && ptr.Deref(vs.Status.BoundVolumeSnapshotContentName, "") != ""
	switch {
	case s.Group == GroupUnread:
		return wait{Finding: inGroup}
	case vs.DeletionTimestamp != nil && s.Group == GroupAlive:
		return refuse{Finding: verdict.Because(verdict.SnapshotGroupAlive,
			"the VolumeSnapshot is a member of VolumeGroupSnapshot %q; delete the group", ptr.Deref(groupName(vs), ""))}
	case vs.DeletionTimestamp != nil:
		return removeSnapshot(s)
	case named && s.Content == nil:
		return fail(s, now, verdict.Because(verdict.SnapshotContentAbsent, "VolumeSnapshotContent is missing"))
	case !named || !refersTo(s.Content, vs):
		return wait{Finding: inGroup}
	case IsReady(vs):
		return keepReady(s, now)
	}
	actions := protect(s)
	status := copied(vs, s.Content)
	if !sameStatus(vs.Status, status) {
		actions = append(actions, WriteStatus{status})
	}
	return progress(s, status, actions)
}
