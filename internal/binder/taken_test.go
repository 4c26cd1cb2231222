package binder

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/test/sim/view"
)

// I3: a binder whose first list of claims is an old one has one that is gone. A volume that is
// deleted with its claim is not given to it: it would be released at once, and deleted with what
// a user has put there. One that is kept is given to it, which costs no read.
func TestAnOldListTakesNothingThatIsDeleted(t *testing.T) {
	for policy, want := range map[corev1.PersistentVolumeReclaimPolicy]string{
		corev1.PersistentVolumeReclaimDelete: "v Available",
		corev1.PersistentVolumeReclaimRetain: "v Released c",
	} {
		t.Run(string(policy), func(t *testing.T) {
			inWorld(t, func(w *testCluster) {
				claim, pv := liveClaim("c", "a"), liveVolume("v", "a")
				pv.Spec.PersistentVolumeReclaimPolicy = policy
				w.create(pv, claim)
				w.remove(claim)
				p := w.prepare()
				p.view = view.New(w.server, view.Fault{Kind: &corev1.PersistentVolumeClaim{}, Late: 2, Frozen: true})
				p.view.Break()
				w.run(p)
				w.settle()
				w.expect(want)
			})
		})
	}
}

// 1.7: a claim that is being deleted does not take the free volume that it names, with which
// a user's data might be deleted. That is there for others.
func TestAClaimThatIsGoingTakesNothingThatIsFree(t *testing.T) {
	chosen := liveClaim("c", "a")
	chosen.Spec.VolumeName = "v"
	deleted := liveVolume("v", "a")
	deleted.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	inWorld(t, func(w *testCluster) {
		w.start()
		w.create(chosen)
		if err := w.api.Delete(w.ctx, chosen.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		w.create(deleted, liveClaim("d", "a"))
		w.expect("c Pending v; d Bound v; v Bound d")
	})
	l := newObjectStore()
	c, v := seen(chosen.DeepCopy(), "1", "1"), seen(deleted.DeepCopy(), "v", "2", func(v *corev1.PersistentVolume) { v.Status.Phase = "" })
	own := binding.Key{Volume: "v"}
	l.claimSeen(keyOf(c), c, c)
	if keys := l.volumeSeen("v", v, v); slices.Contains(keys, own) {
		t.Fatal("the volume is not spoken for")
	}
	going := seen(c.DeepCopy(), "1", "3", func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Unix(1, 0)) })
	if keys := l.claimSeen(keyOf(c), going, going); !slices.Contains(keys, own) {
		t.Error("the volume is not called available")
	}
	if keys := l.claimSeen(keyOf(c), going, going); slices.Contains(keys, own) {
		t.Error("the volume is looked at again and again")
	}
}
