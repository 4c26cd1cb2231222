package sim

import (
	"fmt"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/purser-csi/purser/internal/names"
)

// TestSnapshotBesideProvisioner has the provisioner remove its finalizer from a VolumeSnapshot that
// is being deleted, around each write and call of the snapshotter in turn: it reads the object before
// and replaces it after, as its permissions have it (RB-5). Neither program meets a conflict, and the
// snapshotter writes no more than without a restore (SN-D7, SN-H6).
func TestSnapshotBesideProvisioner(t *testing.T) {
	for _, work := range snapshotWorkloads {
		alone := newSnapshotWorld(t, snapshotMutant{})
		alone.play(work, false)
		for at := 1; ; at++ {
			w := newSnapshotWorld(t, snapshotMutant{})
			if w.playRestored(work, at); w.at > w.done {
				break
			}
			if w.conflicts > 0 {
				w.wrong = append(w.wrong, fmt.Sprintf("%d conflicts", w.conflicts))
			}
			if w.done != alone.done {
				w.wrong = append(w.wrong, fmt.Sprintf("%d writes and calls, and %d without the provisioner", w.done, alone.done))
			}
			for _, wrong := range w.wrong {
				t.Errorf("%s, the provisioner around write %d of the deletion: %s", work.name, at, wrong)
			}
		}
	}
}

// playRestored is play with a first snapshot that was restored from: the provisioner removes its
// finalizer around this write or call after the deletion.
func (w *snapshotWorld) playRestored(work snapshotWork, at int) {
	key := client.ObjectKey{Namespace: "n", Name: "first"}
	must := func(err error) {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.onRemove = func() {
		vs := &snapshotv1.VolumeSnapshot{}
		must(w.server.Client().Get(w.t.Context(), key, vs))
		controllerutil.AddFinalizer(vs, names.FinalizerRestoreSource)
		must(w.server.Client().Update(w.t.Context(), vs))
		w.at = w.done + at
	}
	w.around = func(act func() error) error {
		vs := &snapshotv1.VolumeSnapshot{}
		must(w.server.Client().Get(w.t.Context(), key, vs))
		err := act()
		controllerutil.RemoveFinalizer(vs, names.FinalizerRestoreSource)
		if err := w.server.Client().Update(w.t.Context(), vs); apierrors.IsConflict(err) {
			w.wrong = append(w.wrong, "the provisioner met a conflict: "+err.Error())
		}
		return err
	}
	w.play(work, false)
}
