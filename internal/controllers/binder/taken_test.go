package binder

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/test/sim/view"
)

// I3: a binder whose first list of claims is an old one has one that is gone. A volume that is deleted with its claim is not given to it:
// it would be released at once, and deleted with what somebody has put there. One that is kept is given to it, which costs no read.
func TestAnOldListTakesNothingThatIsDeleted(t *testing.T) {
	for policy, want := range map[corev1.PersistentVolumeReclaimPolicy]string{
		corev1.PersistentVolumeReclaimDelete: "v Available",
		corev1.PersistentVolumeReclaimRetain: "v Released c",
	} {
		t.Run(string(policy), func(t *testing.T) {
			inWorld(t, func(w *world) {
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
