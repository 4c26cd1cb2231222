package binder

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// I7, I2: a response to a write that arrives after its object was dropped from the store adds the
// object again. The deletion event of a previous object of that name is still handled.
func TestDeletionOfThePreviousObjectIsHandled(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		o := w.overlook()
		claim, pv := o.objectStore.newestClaim(o.key.Claim), o.objectStore.newestVolume("v")
		later, other := claim.DeepCopy(), pv.DeepCopy()
		later.UID, later.ResourceVersion = "later", "1000000"
		other.UID, other.ResourceVersion, other.Spec.ClaimRef.UID = "other", "1000001", "later"
		o.objectStore.ownClaims.Wrote(later)
		o.objectStore.wroteVolume(other)
		for name, end := range map[string]func(){
			"claim": func() { o.claimSeen(claim, nil) }, "volume": func() { o.volumeSeen(pv, nil) },
		} {
			end()
			w.settle()
			o.queue.take()
			if time.Sleep(unseenLook); !slices.Contains(o.queue.take(), o.key) {
				t.Errorf("the %s is not enqueued again", name)
			}
		}
		if o.objectStore.newestClaim(o.key.Claim) != nil || o.objectStore.newestVolume("v") != nil {
			t.Error("what no watch shows is still believed")
		}
	})
}

// overlooked is a binder that sees what it is shown by hand, of a pair that is bound.
type overlooked struct {
	*process
	queue  *keyRecorder
	key    binding.Key
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
}

func (w *testCluster) overlook() *overlooked {
	w.Helper()
	o := &overlooked{process: w.prepare(), queue: &keyRecorder{}, claim: liveClaim("c", ""), volume: liveVolume("v", "")}
	o.workQueue.set(o.queue)
	o.volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	o.volume.Status.Phase = corev1.VolumeAvailable
	w.create(o.volume, o.claim)
	o.key = binding.Key{Claim: keyOf(o.claim)}
	for range 2 { // as it is made, and as it is then
		pv, claim := apiserver.Objects(w.server, o.volume)[0], apiserver.Objects(w.server, o.claim)[0]
		o.objectStore.volumeSeen("v", pv, pv)
		o.objectStore.claimSeen(o.key.Claim, claim, claim)
		o.run(w)
	}
	w.expect("c Bound v; v Bound c")
	return o
}

func (o *overlooked) run(w *testCluster) {
	w.Helper()
	if _, err := o.Loop().Reconcile(w.ctx, o.key); err != nil {
		w.Fatal(err)
	}
	o.queue.take()
}

// again looks once more if it is enqueued within a while.
func (o *overlooked) again(w *testCluster) {
	w.Helper()
	if time.Sleep(unseenLook); !slices.Contains(o.queue.take(), o.key) {
		w.Error("it is not looked at again")
	}
	o.run(w)
}
