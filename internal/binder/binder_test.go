package binder

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

const bindingOfStatic = "1 claim, 1 claim status, 1 volume, 1 volume status"

// 1.10: four writes, no read.
func TestStatic(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.start()
		w.create(liveVolume("v", "a"))
		w.expect("v Available")
		w.did(p, "1 volume status")
		w.create(liveClaim("c", "a"))
		w.expect("c Bound v; v Bound c")
		w.did(p, bindingOfStatic)
		w.wantEvents()
		claim := apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{})[0]
		if claim.Annotations[names.AnnBindCompleted] != "yes" || claim.Annotations[names.AnnBoundByController] != "yes" || claim.Status.Capacity.Storage().String() != "1Gi" {
			t.Errorf("claim %v %v", claim.Annotations, claim.Status)
		}
		pv := apiserver.Objects(w.server, &corev1.PersistentVolume{})[0]
		if pv.Annotations[names.AnnBoundByController] != "yes" || pv.Spec.ClaimRef.UID != claim.UID || pv.Spec.ClaimRef.Kind != "PersistentVolumeClaim" {
			t.Errorf("volume %v %v", pv.Annotations, pv.Spec.ClaimRef)
		}
	})
}

// 1.12: a foreign provisioner gets what upstream writes; then three writes bind.
func TestDynamic(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.start()
		w.create(liveClaim("c", "gold"))
		w.wantEvents(`c Warning ProvisioningFailed storageclass.storage.k8s.io "gold" not found`)
		w.create(dynamicClass("gold"))
		w.did(p, "1 claim")
		w.wantEvents("c Normal ExternalProvisioning Waiting for a volume to be created either by the external pr")
		claim := apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{})[0]
		if claim.Annotations[names.AnnStorageProvisioner] != "d" || claim.Annotations[names.AnnBetaStorageProvisioner] != "d" {
			t.Errorf("C4: %v", claim.Annotations)
		}
		w.create(provisioned("pvc-1", claim))
		w.expect("c Bound pvc-1; pvc-1 Bound c")
		w.did(p, "1 claim, 1 claim status, 1 volume status")
		w.wantEvents()
		w.remove(claim)
		w.expect("pvc-1 Released c")
		w.did(p, "1 volume status") // one write and no read
	})
}

// Whatever was written before a crash, the next binder goes on from there.
func TestCrash(t *testing.T) {
	for dies := range 4 {
		t.Run(fmt.Sprint("after ", dies, " writes"), func(t *testing.T) {
			inWorld(t, func(w *testCluster) {
				v := liveVolume("v", "a")
				v.Status.Phase = corev1.VolumeAvailable
				w.create(v, liveClaim("c", "a"))
				p, writes := w.prepare(), 0
				p.api.meet(func(client.Object, string) error {
					if writes++; writes > dies {
						return errors.New("dead")
					}
					return nil
				})
				w.run(p)
				p.stop()
				w.settle()
				next := w.start()
				w.expect("c Bound v; v Bound c")
				if got := next.api.take(); got == bindingOfStatic && dies > 0 {
					t.Errorf("%s: nothing was taken over", got)
				}
			})
		})
	}
}

// Another client changed the volume a moment before. It is read, and decided again, at once.
func TestConflict(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*corev1.PersistentVolume)
		expect string
	}{
		{"of no importance", func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"new": "yes"} }, "c Bound v; v Bound c"},
		{"it is reserved for another", func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "other"}
		}, "c Pending; v Available other by name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *testCluster) {
				p, once := w.prepare(func(c *Config) { c.Backoff.First = time.Hour; c.Backoff.Most = time.Hour }), false
				v := liveVolume("v", "a")
				v.Status.Phase = corev1.VolumeAvailable
				w.create(v, liveClaim("c", "a"))
				p.api.meet(func(_ client.Object, what string) error {
					if what == "volume" && !once {
						once = true
						pv := apiserver.Objects(w.server, v)[0]
						tc.change(pv)
						return w.api.Update(w.ctx, pv)
					}
					return nil
				})
				w.run(p)
				w.expect(tc.expect)
			})
		})
	}
}

// Many claims and as many volumes, at once and in any order. Each gets one, none is refused,
// and none is left over.
func TestManyAtOnce(t *testing.T) {
	const n = 100
	inWorld(t, func(w *testCluster) {
		p := w.start()
		for i := range n {
			for _, o := range []client.Object{liveClaim(fmt.Sprint("c", i), "a"), liveVolume(fmt.Sprint("v", i), "a")} {
				if err := w.api.Create(w.ctx, o); err != nil {
					t.Fatal(err)
				}
			}
			if i%7 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		w.settle()
		for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
			if claim.Status.Phase != corev1.ClaimBound {
				t.Errorf("%s is %s", claim.Name, claim.Status.Phase)
			}
		}
		w.did(p, fmt.Sprintf("%d claim, %d claim status, %d volume, %d volume status", n, n, n, 2*n))
		if len(p.objectStore.held)+len(p.objectStore.holds)+p.objectStore.index.Waiting() != 0 {
			t.Errorf("%d held, %d holds, %d wait", len(p.objectStore.held), len(p.objectStore.holds), p.objectStore.index.Waiting())
		}
	})
}

// T1.8, T1.11: lost is said when it is true, once, and taken back.
func TestLost(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.start()
		v := liveVolume("v", "")
		w.create(v)
		w.create(liveClaim("c", ""))
		p.api.take()
		w.remove(v)
		w.expect("c Lost v")
		w.did(p, "1 claim status, 1 get")
		w.wantEvents("c Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volum")
		again := liveVolume("v", "")
		claim := apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{})[0]
		again.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "c", UID: claim.UID}
		w.create(again)
		w.expect("c Bound v; v Bound c")
	})
}

// T2.e, T2.f: a second volume for a claim that has one.
func TestBoundElsewhere(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		w.start()
		claim := liveClaim("c", "a")
		w.create(claim, liveVolume("v", "a"))
		spare := provisioned("w", claim)
		byHand := liveVolume("x", "a")
		byHand.Spec.ClaimRef = spare.Spec.ClaimRef
		ours := byHand.DeepCopy()
		ours.Name, ours.Annotations = "y", map[string]string{names.AnnBoundByController: "yes"}
		w.create(spare, byHand, ours)
		w.expect("c Bound v; v Bound c; w Released c; x Available c by name; y Available")
	})
}

func provisioned(name string, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	pv := liveVolume(name, *claim.Spec.StorageClassName)
	pv.Annotations = map[string]string{names.AnnProvisionedBy: "d"}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	return pv
}
