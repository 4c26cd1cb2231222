package snapshotting

import (
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/verdict"
)

// member follows the content that the group made for a member (SN-Q6), and removes its
// finalizers with the group's deletion (SN-D4).
func (s view) member() Verdict {
	o := s.object
	inGroup := verdict.Because(verdict.SnapshotInGroup, "the VolumeSnapshot belongs to a VolumeGroupSnapshot")
	named := ptr.Deref(o.status.Content, "") != ""
	switch {
	case !s.Groups || o.group == "":
		return wait{Finding: inGroup}
	case o.isHeld() && s.Group == nil && s.lacks(ReadGroup): // that it is gone must not follow from a stale cache
		return s.ask(verdict.Ref{What: ReadGroup, Namespace: o.Namespace, Name: o.group})
	case o.DeletionTimestamp != nil && s.Group != nil && s.Group.DeletionTimestamp == nil:
		return refuse{Finding: verdict.Because(verdict.SnapshotGroupAlive,
			"the VolumeSnapshot is a member of VolumeGroupSnapshot %q; delete the group", o.group)}
	case o.DeletionTimestamp != nil:
		return s.remove()
	case named && s.content == nil:
		return s.lost()
	case !named || !s.content.refersTo(o):
		return wait{Finding: inGroup}
	case o.isReady():
		return s.keepReady()
	}
	return s.progress(s.protect(s.content.policy, ""))
}
