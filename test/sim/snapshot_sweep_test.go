package sim

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// snapshotWork is a workload of snapshots.
type snapshotWork struct {
	name     string
	policy   snapshotv1.DeletionPolicy
	count    int // VolumeSnapshots of the one claim
	unready  int // answers before the snapshot is ready
	timeouts int // calls that make the snapshot and fail

	parameters map[string]string // of the class
}

var snapshotWorkloads = []snapshotWork{
	{name: "one", policy: snapshotv1.VolumeSnapshotContentDelete, count: 1},
	{name: "one retained", policy: snapshotv1.VolumeSnapshotContentRetain, count: 1},
	{name: "two of one claim", policy: snapshotv1.VolumeSnapshotContentDelete, count: 2},
	{name: "processed for long", policy: snapshotv1.VolumeSnapshotContentDelete, count: 1, unready: 2},
	{name: "after timeouts", policy: snapshotv1.VolumeSnapshotContentDelete, count: 1, timeouts: 2},
	{name: "processed for minutes", policy: snapshotv1.VolumeSnapshotContentDelete, count: 1, unready: 8},
}

// play takes the snapshots, deletes them, and checks what is left. early has the user delete them at
// the moment of the fault.
func (w *snapshotWorld) play(work snapshotWork, early bool) {
	w.unready, w.timeouts = work.unready, work.timeouts
	w.createObjects(work)
	all := []string{"first", "second"}[:work.count]
	for _, name := range all {
		w.create(&snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name},
			Spec: snapshotv1.VolumeSnapshotSpec{
				VolumeSnapshotClassName: new("c"), Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("claim")},
			},
		})
	}
	uids := map[string]string{}
	for _, vs := range apiserverSnapshots(w) {
		uids[vs.Name] = string(vs.UID)
	}
	remove := func() {
		for _, name := range all {
			err := w.server.Client().Delete(w.t.Context(), &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}})
			if err != nil && !apierrors.IsNotFound(err) {
				w.t.Fatal(err)
			}
		}
	}
	if early {
		w.onFault = remove
	}
	if !w.settle() {
		w.wrong = append(w.wrong, "it does not settle after the start")
	}
	for _, vs := range apiserverSnapshots(w) {
		if !early && (vs.Status == nil || vs.Status.ReadyToUse == nil || !*vs.Status.ReadyToUse) {
			w.wrong = append(w.wrong, vs.Name+" is not ready")
		}
	}
	if w.onRemove != nil {
		w.onRemove()
	}
	remove()
	if !w.settle() {
		w.wrong = append(w.wrong, "it does not settle after the deletion")
	}
	w.end(work, uids, early)
}

// end holds the invariants: no VolumeSnapshot and no finalizer is left, no snapshot was made under a
// second name, none is leaked, and a retained one still has its content.
func (w *snapshotWorld) end(work snapshotWork, uids map[string]string, early bool) {
	w.silences.atEnd()
	if left := apiserverSnapshots(w); len(left) > 0 {
		w.wrong = append(w.wrong, fmt.Sprintf("%d VolumeSnapshots are left", len(left)))
	}
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: "n", Name: "claim"}
	if err := w.server.Client().Get(w.t.Context(), key, claim); err != nil && (!apierrors.IsNotFound(err) || !w.together.deletesClaim()) {
		w.t.Fatal(err)
	}
	if slices.Contains(claim.Finalizers, names.FinalizerSnapshotClaim) {
		w.wrong = append(w.wrong, "the claim keeps its finalizer")
	}
	for name, times := range w.made {
		uid := strings.TrimPrefix(name, "snapshot-")
		if times > 1 || !slices.Contains([]string{uids["first"], uids["second"]}, uid) {
			w.wrong = append(w.wrong, fmt.Sprintf("the snapshot %s was made %d times", name, times))
		}
	}
	handles := map[string]bool{}
	for _, content := range apiserverContents(w) {
		if content.Status != nil && content.Status.SnapshotHandle != nil {
			handles[*content.Status.SnapshotHandle] = true
		}
		if work.policy == snapshotv1.VolumeSnapshotContentDelete {
			w.wrong = append(w.wrong, "the content "+content.Name+" is left")
		}
	}
	for _, id := range w.snapshots {
		if !handles[id] {
			w.wrong = append(w.wrong, "the snapshot "+id+" is leaked: no content has its handle")
		}
	}
	if work.policy == snapshotv1.VolumeSnapshotContentRetain && !early && len(w.snapshots) != work.count {
		w.wrong = append(w.wrong, fmt.Sprintf("%d snapshots are retained, want %d", len(w.snapshots), work.count))
	}
}

// TestSnapshotFaultFree is each workload without a fault: one CreateSnapshot and one DeleteSnapshot
// for each snapshot, and no more writes than these.
func TestSnapshotFaultFree(t *testing.T) {
	for _, work := range snapshotWorkloads {
		w := newSnapshotWorld(t, snapshotMutant{})
		w.play(work, false)
		for _, wrong := range w.wrong {
			t.Errorf("%s: %s", work.name, wrong)
		}
		wanted := work.count
		if work.policy == snapshotv1.VolumeSnapshotContentRetain {
			wanted = 0
		}
		if w.created != work.count+work.unready+work.timeouts || w.deleted != wanted {
			t.Errorf("%s: %d calls of CreateSnapshot and %d of DeleteSnapshot", work.name, w.created, w.deleted)
		}
		t.Logf("%s: %d writes and calls", work.name, w.done)
	}
}

// sweepSnapshots brings each fault about at each write and call, with and without a user who
// deletes at that moment. It returns the number of runs, and what went wrong in the first few.
func sweepSnapshots(
	t *testing.T, works []snapshotWork, play playing, mutant snapshotMutant, every int,
) (runs int, wrong []string) {
	t.Helper()
	return sweepWorlds(t, newSnapshotWorld, works, play, mutant, every)
}

// sweepWorlds is sweepSnapshots of worlds of one kind.
func sweepWorlds(
	t *testing.T, newWorld func(*testing.T, snapshotMutant) *snapshotWorld, works []snapshotWork, play playing,
	mutant snapshotMutant, every int,
) (runs int, wrong []string) {
	t.Helper()
	for _, work := range works {
		whole := newWorld(t, mutant)
		play(whole, work, false)
		for at := 1; at <= whole.done; at += every {
			for _, f := range []fault{crashBefore, crashAfter, lostReply} {
				for _, early := range []bool{false, true} {
					w := newWorld(t, mutant)
					w.at, w.fault = at, f
					play(w, work, early)
					runs++
					for _, text := range w.wrong {
						wrong = append(wrong, fmt.Sprintf("%s, fault %d at %d, deleted then: %v: %s", work.name, f, at, early, text))
					}
					if len(wrong) > 0 && mutant.name != "" { // it is seen
						return runs, wrong
					}
				}
			}
		}
	}
	return runs, wrong
}

// playing plays a workload in a world, about snapshots or about groups of them.
type playing = func(*snapshotWorld, snapshotWork, bool)

// everyNth is of how many writes and calls one has the fault.
func everyNth() int {
	if os.Getenv("SIM") == "whole" {
		return 1
	}
	return 3
}

// mustHold sweeps the workloads, and reports the first violations.
func mustHold(t *testing.T, works []snapshotWork, play playing) {
	t.Helper()
	runs, wrong := sweepSnapshots(t, works, play, snapshotMutant{}, everyNth())
	for _, text := range wrong[:min(len(wrong), 10)] {
		t.Error(text)
	}
	t.Logf("%d runs, %d violations", runs, len(wrong))
}

// mustSee sweeps the workloads with each mutant, and reports those that live.
func mustSee(t *testing.T, mutants []snapshotMutant, works []snapshotWork, play playing) {
	t.Helper()
	for _, mutant := range mutants {
		if runs, wrong := sweepSnapshots(t, works, play, mutant, 2); len(wrong) == 0 {
			t.Errorf("%s: not seen in %d runs", mutant.name, runs)
		}
	}
}

// TestSnapshotSweep crashes both halves at every write and call.
func TestSnapshotSweep(t *testing.T) { mustHold(t, snapshotWorkloads, (*snapshotWorld).play) }

// snapshotMutants break one rule each.
var snapshotMutants = []snapshotMutant{
	{name: "the content is not marked before CreateSnapshot", write: func(_ client.Object, patch string) bool {
		return !strings.Contains(patch, names.AnnSnapshotBeingCreated)
	}},
	{name: "the content has no finalizer", strip: func(o client.Object) {
		if _, is := o.(*snapshotv1.VolumeSnapshotContent); is {
			o.SetFinalizers(nil)
		}
	}, write: func(o client.Object, patch string) bool {
		_, is := o.(*snapshotv1.VolumeSnapshotContent)
		return !is || !strings.Contains(patch, names.FinalizerSnapshotContent)
	}},
	{name: "the VolumeSnapshot has no finalizers", write: func(o client.Object, patch string) bool {
		_, is := o.(*snapshotv1.VolumeSnapshot)
		return !is || !strings.Contains(patch, "finalizers")
	}},
	{name: "the name differs from process to process", fresh: true},
	{name: "the driver is not asked to delete", keeps: true},
	{name: "emits no event", mute: true},
	{name: "does not say that a wait lasts", sayAfter: always},
}

// TestSnapshotMutants shows that the sweep sees each broken rule.
func TestSnapshotMutants(t *testing.T) {
	mustSee(t, snapshotMutants, snapshotWorkloads, (*snapshotWorld).play)
}

func apiserverSnapshots(w *snapshotWorld) []*snapshotv1.VolumeSnapshot {
	return objectsOf(w, &snapshotv1.VolumeSnapshot{})
}

func apiserverContents(w *snapshotWorld) []*snapshotv1.VolumeSnapshotContent {
	return objectsOf(w, &snapshotv1.VolumeSnapshotContent{})
}
