package sim

import (
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// deleteClaim is a user who deletes the source.
func (w *snapshotWorld) deleteClaim() {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "claim"}}
	if err := w.server.Client().Delete(w.t.Context(), claim); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

// playClaimGoes plays a workload with a user who deletes the source at the moment of the fault, or when all
// is ready.
func (w *snapshotWorld) playClaimGoes(work snapshotWork, early bool) {
	w.together.takesOff = true
	if early {
		w.onFault = w.deleteClaim
	}
	w.unready, w.timeouts = work.unready, work.timeouts
	w.createObjects(work)
	uids := w.createSnapshots(work)
	if !w.settle() {
		w.wrong = append(w.wrong, "it does not settle after the start")
	}
	for _, vs := range apiserverSnapshots(w) {
		isReady := vs.Status != nil && ptr.Deref(vs.Status.ReadyToUse, false)
		if contents := apiserverContents(w); len(contents) == work.count && !isReady {
			w.wrong = append(w.wrong, vs.Name+" is not ready")
		}
	}
	w.deleteClaim()
	if !w.settle() {
		w.wrong = append(w.wrong, "it does not settle after the deletion of the claim")
	}
	if left := apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}); len(left) > 0 {
		w.wrong = append(w.wrong, "the claim is left, with the finalizers "+left[0].Finalizers[0])
	}
	w.deleteSnapshots(work)
	if !w.settle() {
		w.wrong = append(w.wrong, "it does not settle after the deletion")
	}
	w.end(work, uids, true)
}

// playBack plays a workload whose process is ended, after the fault, and replaced by one that does not work
// together, as upstream's programs do not. Without a fault it is ended in the middle.
func (w *snapshotWorld) playBack(work snapshotWork, early bool) {
	w.unready, w.timeouts = work.unready, work.timeouts
	w.createObjects(work)
	uids := w.createSnapshots(work)
	remove := func() { w.deleteSnapshots(work) }
	if early {
		w.onFault = remove
	}
	for range 3 {
		w.round()
		w.show()
	}
	w.together.end()
	if !w.settle() {
		w.wrong = append(w.wrong, "it does not settle after the start")
	}
	remove()
	if !w.settle() {
		w.wrong = append(w.wrong, "it does not settle after the deletion")
	}
	w.end(work, uids, early)
}

func (w *snapshotWorld) createSnapshots(work snapshotWork) (uids map[string]string) {
	for _, name := range []string{"first", "second"}[:work.count] {
		w.create(&snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name},
			Spec: snapshotv1.VolumeSnapshotSpec{
				VolumeSnapshotClassName: new("c"), Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("claim")},
			},
		})
	}
	uids = map[string]string{}
	for _, vs := range apiserverSnapshots(w) {
		uids[vs.Name] = string(vs.UID)
	}
	return uids
}

func (w *snapshotWorld) deleteSnapshots(work snapshotWork) {
	for _, name := range []string{"first", "second"}[:work.count] {
		vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
		if err := w.server.Client().Delete(w.t.Context(), vs); err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
	}
}

// TestTogetherFaultFree counts the writes of one process: 4 fewer to take a snapshot and 1 fewer to delete it,
// and two of the journal, one before the call and one without the entry (FL-18, FL-19).
func TestTogetherFaultFree(t *testing.T) {
	alone := newSnapshotWorld(t, snapshotMutant{})
	alone.play(snapshotWorkloads[0], false)
	w := newTogetherWorld(t, snapshotMutant{})
	w.clock.Step(2 * time.Minute) // the process leads for longer than any cache is stale
	w.play(snapshotWorkloads[0], false)
	for _, wrong := range w.wrong {
		t.Error(wrong)
	}
	const fewer, journal = 4 + 1, 2
	if want := alone.done - fewer + journal; w.done != want || w.created != 1 || w.deleted != 1 {
		t.Errorf("%d writes and calls, want %d; %d CreateSnapshot, %d DeleteSnapshot", w.done, want, w.created, w.deleted)
	}
}

// togetherPlays are the plays of one process.
var togetherPlays = map[string]playing{
	"the user deletes the snapshot": (*snapshotWorld).play,
	"the user deletes the claim":    (*snapshotWorld).playClaimGoes,
	"back":                          (*snapshotWorld).playBack,
}

// TestTogetherSweep crashes the process at each write, of the journal too, and at each call.
func TestTogetherSweep(t *testing.T) {
	for name, play := range togetherPlays {
		runs, wrong := sweepWorlds(t, newTogetherWorld, snapshotWorkloads, play, snapshotMutant{}, everyNth())
		for _, text := range wrong[:min(len(wrong), 10)] {
			t.Errorf("%s: %s", name, text)
		}
		t.Logf("%s: %d runs, %d violations", name, runs, len(wrong))
	}
}

// TestTogetherMutants shows that the sweep sees each broken rule of one process.
func TestTogetherMutants(t *testing.T) {
	for _, mutant := range []snapshotMutant{
		{name: "no entry is written before the call", together: togetherMutant{unrecorded: true}},
		{name: "an entry is resolved before the status is written", together: togetherMutant{resolves: true}},
		{name: "the protection forgets after a restart", together: togetherMutant{forgets: true}},
		{name: "a call with an unknown outcome leaves no mark", write: func(_ client.Object, patch string) bool {
			return !strings.Contains(patch, names.AnnSnapshotBeingCreated)
		}},
	} {
		seen := false
		for _, play := range togetherPlays {
			_, wrong := sweepWorlds(t, newTogetherWorld, snapshotWorkloads, play, mutant, 1)
			seen = seen || len(wrong) > 0
		}
		if !seen {
			t.Errorf("%s: not seen", mutant.name)
		}
	}
}
