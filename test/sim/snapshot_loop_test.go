package sim

import (
	"testing"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// undone is how often another program undoes the writes, all at one time.
const undone = 100

// playUndone takes a snapshot, or a group, that another program then robs of its finalizers, as often as
// they are there. It returns the most writes for one object within no time.
func (w *snapshotWorld) playUndone(group bool) (most int) {
	class, subject := w.furnishMissing(snapshotWork{}, group)
	_ = class
	w.create(secretOfSnapshots())
	w.create(subject)
	w.settle()
	objects := 0
	before := w.done
	for range undone {
		objects = w.rob()
		w.round()
		w.show()
	}
	if objects == 0 {
		w.t.Fatal("there is nothing to rob")
	}
	most = (w.done - before) / objects
	w.settle()
	return most
}

// rob removes the finalizers of all snapshots and contents, and returns how many these are.
func (w *snapshotWorld) rob() (objects int) {
	all := w.groupObjects()
	for _, o := range objectsOf(w, &snapshotv1.VolumeSnapshot{}) {
		all = append(all, o)
	}
	for _, o := range objectsOf(w, &snapshotv1.VolumeSnapshotContent{}) {
		all = append(all, o)
	}
	for _, o := range all {
		if o.SetFinalizers(nil); w.server.Client().Update(w.t.Context(), o) != nil {
			w.t.Fatal("the finalizers are not removed")
		}
	}
	return len(all)
}

// TestSnapshotHotLoop has another program undo the writes about a snapshot, and about a group. The mutant does
// not delay what is repeated.
func TestSnapshotHotLoop(t *testing.T) {
	for name, group := range map[string]bool{"snapshot": false, "group": true} {
		t.Run(name, func(t *testing.T) {
			w := newSnapshotWorld(t, snapshotMutant{})
			if most := w.playUndone(group); most > mostPerSecond {
				t.Errorf("%d writes for each object, want at most %d", most, mostPerSecond)
			}
			for _, o := range w.protected() {
				if len(o.GetFinalizers()) == 0 {
					t.Errorf("%T %s has no finalizer afterwards", o, o.GetName())
				}
			}
			hot := newSnapshotWorld(t, snapshotMutant{repeats: 1 << 30})
			if most := hot.playUndone(group); most <= mostPerSecond {
				t.Errorf("without a delay there are %d writes for each object, and no more", most)
			}
		})
	}
}

// protected returns what must have a finalizer while it exists.
func (w *snapshotWorld) protected() (all []client.Object) {
	for _, o := range objectsOf(w, &snapshotv1.VolumeSnapshot{}) {
		all = append(all, o)
	}
	for _, o := range objectsOf(w, &groupv1.VolumeGroupSnapshot{}) {
		all = append(all, o)
	}
	return all
}
