package binder

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/sim/apiserver"
)

// I3: a volume copied by hand, whose reference has another name and the uid of a claim that
// lives, is released; the claim and its own volume are not touched, however often they are looked
// at.
func TestCopiedVolume(t *testing.T) {
	elsewhere := func(w *testCluster, claim *corev1.PersistentVolumeClaim, name string) {
		x := provisioned("x", claim)
		x.Spec.ClaimRef.Name = name
		w.create(x)
	}
	label := func(w *testCluster, o client.Object) {
		edit(w, o, func(o client.Object) { o.SetLabels(map[string]string{"looked-at": "again"}) })
	}
	for name, other := range map[string]*corev1.PersistentVolumeClaim{"a name without a claim": nil, "the name of another claim": liveClaim("d", "a")} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *testCluster) {
				claim := liveClaim("c", "a")
				w.create(claim)
				w.create(provisioned("v", claim))
				wantOther := ""
				if other != nil {
					w.create(other.DeepCopy())
					wantOther = "d Pending; "
				}
				p := w.start()
				elsewhere(w, claim, "d")
				want := "c Bound v; " + wantOther + "v Bound c; x Released d"
				w.expect(want)
				label(w, claim)
				label(w, liveVolume("v", "a"))
				w.expect(want)
				p.enqueue(p.objectStore.keys())
				w.settle()
				w.expect(want)
			})
		})
	}
	t.Run("a claim that waits", func(t *testing.T) {
		inWorld(t, func(w *testCluster) {
			claim := liveClaim("c", "a")
			w.create(claim)
			w.start()
			elsewhere(w, apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{})[0], "d")
			w.create(liveVolume("v", "a"))
			w.expect("c Bound v; v Bound c; x Released d")
		})
	})
}
