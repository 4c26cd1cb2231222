package snapshot

import (
	"slices"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// SN-D7: the live read of a content is left out only if the watch showed the deletion of this very content
// of this very VolumeSnapshot, which is being deleted.
func TestDeletedContentNeedsNoRead(t *testing.T) {
	now := metav1.Now()
	key := types.NamespacedName{Namespace: "n", Name: "s"}
	snapshot := func(change func(*snapshotv1.VolumeSnapshot)) rules.Snapshot {
		vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "s", UID: "u", DeletionTimestamp: &now,
		}}
		change(vs)
		return rules.Snapshot{Snapshot: vs}
	}
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "snapcontent-u"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "n", Name: "s", UID: "u"},
		},
	}
	for name, tc := range map[string]struct {
		s    rules.Snapshot
		want bool
	}{
		"its content was deleted": {snapshot(func(*snapshotv1.VolumeSnapshot) {}), true},
		"it is not being deleted": {snapshot(func(vs *snapshotv1.VolumeSnapshot) { vs.DeletionTimestamp = nil }), false},
		"another one of its name": {snapshot(func(vs *snapshotv1.VolumeSnapshot) { vs.UID = "v" }), false},
		"bound to another content": {snapshot(func(vs *snapshotv1.VolumeSnapshot) {
			vs.Status = &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: new("other")}
		}), false},
	} {
		var d deletedContents
		if got := d.withoutRead(key, tc.s); len(got.Read) != 0 {
			t.Errorf("%s, in a new process: %q", name, got.Read)
		}
		d.add(content)
		if got := d.withoutRead(key, tc.s); slices.Contains(got.Read, rules.ReadContent) != tc.want {
			t.Errorf("%s: %q", name, got.Read)
		}
		if d.withoutRead(key, rules.Snapshot{}); len(d.known) != 0 {
			t.Errorf("%s: it is known after its VolumeSnapshot is gone", name)
		}
	}
}
