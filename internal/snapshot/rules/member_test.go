package snapshotting

import (
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	"github.com/purser-csi/purser/internal/names"
)

// SN-N15, SN-D1: the content of a member of a group is found by the member's name before a status
// names it. A group that is deleted at that moment would leave it behind otherwise.
func TestContentName(t *testing.T) {
	member := func(s *Snapshot) {
		s.Snapshot.Name, s.Snapshot.Finalizers = "snapshot-hash", []string{names.FinalizerSnapshotInGroup}
	}
	for name, test := range map[string]struct {
		s    Snapshot
		want string
	}{
		"SN-N15: dynamic":         {world(), "snapcontent-u"},
		"SN-N15: pre-provisioned": {world(func(s *Snapshot) { s.Snapshot.Spec.Source.VolumeSnapshotContentName = new("old") }), "old"},
		"SN-D1: bound": {world(func(s *Snapshot) {
			s.Snapshot.Status = &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: new("bound")}
		}), "bound"},
		"SN-D1: member of a group": {world(member), "snapcontent-hash"},
	} {
		if got := ContentName(test.s.Snapshot); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
