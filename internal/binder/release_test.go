package binder

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// I3: what a binder does when it has not seen a deletion: it asks. 8.8, 8.13
func TestRelease(t *testing.T) {
	bound := func(w *testCluster) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
		claim := liveClaim("c", "a")
		w.create(liveVolume("v", "a"), claim)
		w.start()
		w.expect("c Bound v; v Bound c")
		return claim, liveVolume("v", "a")
	}
	t.Run("8.25 moved to another claim, which waits for it", func(t *testing.T) {
		inWorld(t, func(w *testCluster) {
			claim, volume := bound(w)
			edit(w, volume, func(v *corev1.PersistentVolume) {
				metav1.SetMetaDataAnnotation(&v.ObjectMeta, names.AnnReuse, "default/d")
			})
			w.create(liveClaim("d", "a"))
			w.expect("c Bound v; d Pending; v Bound c")
			w.remove(claim)
			w.expect("d Bound v; v Bound d")
		})
	})
	t.Run("deleted while no binder ran: one read", func(t *testing.T) {
		inWorld(t, func(w *testCluster) {
			claim := liveClaim("c", "a")
			w.create(claim)
			w.create(provisioned("v", claim))
			w.remove(claim)
			p := w.start()
			w.expect("v Released c")
			w.did(p, "1 get, 1 volume status")
		})
	})
	t.Run("created again under the name while no binder ran: one read", func(t *testing.T) {
		inWorld(t, func(w *testCluster) {
			claim := liveClaim("c", "a")
			w.create(claim)
			w.create(provisioned("v", claim))
			w.remove(claim)
			w.create(liveClaim("c", "a"))
			p := w.start()
			w.expect("c Pending; v Released c")
			w.did(p, "1 get, 1 volume status")
		})
	})
	t.Run("a view of the claims that is behind: the claim of the volume is not there yet", func(t *testing.T) {
		inWorld(t, func(w *testCluster) {
			p := w.prepare()
			p.objectStore.claimSeen(types.NamespacedName{Namespace: "default", Name: "gone"}, liveClaim("gone", "a"), nil) // of no interest
			claim := liveClaim("c", "a")
			w.create(claim)
			w.create(provisioned("v", claim))
			// The store learns of the volume only.
			pv := apiserver.Objects(w.server, &corev1.PersistentVolume{})[0]
			p.objectStore.volumeSeen("v", pv, pv)
			s, err := p.Gather(t.Context(), keysOf(map[types.NamespacedName]struct{}{{Namespace: "default", Name: "c"}: {}})[0])
			if err != nil {
				t.Fatal(err)
			}
			if end := p.Loop(); end == nil || s.Claim != nil {
				t.Fatal("the claim is there")
			}
			if _, err := p.Loop().Reconcile(t.Context(), s.Key); err != nil {
				t.Fatal(err)
			}
			w.expect("c Bound v; v Bound c")
		})
	})
	t.Run("deleted and created again at once", func(t *testing.T) {
		inWorld(t, func(w *testCluster) {
			claim, _ := bound(w)
			w.remove(claim)
			w.create(liveClaim("c", "a"))
			w.expect("c Pending; v Released c")
		})
	})
	t.Run("a claim that is going is not gone", func(t *testing.T) {
		inWorld(t, func(w *testCluster) {
			claim, _ := bound(w)
			if err := w.api.Delete(w.ctx, claim); err != nil {
				t.Fatal(err)
			}
			w.settle()
			w.expect("c Bound v; v Bound c")
		})
	})
	t.Run("a claim that goes while its volume was only reserved for it", func(t *testing.T) {
		inWorld(t, func(w *testCluster) {
			p := w.prepare()
			p.api.meet(func(_ client.Object, what string) error { // it dies after W1
				if what != "volume" {
					return errors.New("dead")
				}
				return nil
			})
			claim := liveClaim("c", "a")
			v := liveVolume("v", "a")
			v.Status.Phase = corev1.VolumeAvailable
			w.create(v, claim)
			w.run(p)
			w.expect("c Pending; v Available c")
			p.api.meet(nil)
			w.remove(claim)
			w.expect("v Released c")
		})
	})
}
