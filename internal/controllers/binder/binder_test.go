package binder

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

const bindingOfStatic = "1 claim, 1 claim status, 1 volume, 1 volume status"

// 2.1: four writes, no read.
func TestStatic(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.start()
		w.create(liveVolume("v", "a"))
		w.expect("v Available")
		w.did(p, "1 volume status")
		w.create(liveClaim("c", "a"))
		w.expect("c Bound v; v Bound c")
		w.did(p, bindingOfStatic)
		w.told()
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

// D3: everything that a claim waits for wakes it up, and not an audit. 8.4, 8.5
func TestWakeUps(t *testing.T) {
	isDefault := func(c *storagev1.StorageClass) *storagev1.StorageClass {
		c.Annotations = map[string]string{names.AnnDefaultStorageClass: "true"}
		return c
	}
	late := func(c *storagev1.StorageClass) *storagev1.StorageClass {
		c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
		return c
	}
	withoutClass := liveClaim("c", "")
	withoutClass.Spec.StorageClassName = nil
	byName := liveVolume("v", "other")
	byName.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "c"}
	chosen := liveClaim("c", "a")
	chosen.Spec.VolumeName = "v"
	taken := liveVolume("v", "a")
	taken.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "other"}
	for _, tc := range []struct {
		name   string
		there  []client.Object
		waits  string
		then   func(w *testCluster)
		expect string
	}{
		{"a volume", []client.Object{liveClaim("c", "a")}, "c Pending", func(w *testCluster) { w.create(liveVolume("v", "a")) }, "c Bound v; v Bound c"},
		{
			"a volume that is freed",
			[]client.Object{liveClaim("c", "a"), taken.DeepCopy()},
			"c Pending; v Available other by name",
			func(w *testCluster) {
				edit(w, taken.DeepCopy(), func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })
			}, "c Bound v; v Bound c",
		},
		{"a volume that is reserved by name", []client.Object{liveClaim("c", "a")}, "c Pending", func(w *testCluster) { w.create(byName.DeepCopy()) }, "c Bound v; v Bound c"},
		{
			"a volume that gets reserved by name",
			[]client.Object{liveClaim("c", "a"), liveVolume("v", "other")},
			"c Pending; v Available",
			func(w *testCluster) {
				edit(w, liveVolume("v", ""), func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = byName.Spec.ClaimRef })
			}, "c Bound v; v Bound c",
		},
		{"the volume that the claim names", []client.Object{chosen.DeepCopy()}, "c Pending v", func(w *testCluster) { w.create(liveVolume("v", "a")) }, "c Bound v; v Bound c"},
		{
			"the volume that the claim names and another one had",
			[]client.Object{chosen.DeepCopy(), taken.DeepCopy()},
			"c Pending v; v Available other by name",
			func(w *testCluster) {
				edit(w, taken.DeepCopy(), func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })
			}, "c Bound v; v Bound c",
		},
		{
			"labels that the claim selects",
			[]client.Object{selecting(liveClaim("c", "a")), liveVolume("v", "a")},
			"c Pending; v Available",
			func(w *testCluster) {
				edit(w, liveVolume("v", ""), func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"tier": "gold"} })
			}, "c Bound v; v Bound c",
		},
		{
			"a default class whose volume is there",
			[]client.Object{withoutClass.DeepCopy(), liveVolume("v", "a")},
			"c Pending; v Available",
			func(w *testCluster) { w.create(isDefault(staticClass("a"))) }, "c Bound v; v Bound c",
		},
		{
			"a class that becomes the default",
			[]client.Object{withoutClass.DeepCopy(), liveVolume("v", "a"), staticClass("a")},
			"c Pending; v Available",
			func(w *testCluster) {
				edit(w, staticClass("a"), func(c *storagev1.StorageClass) { c.Annotations = isDefault(staticClass("a")).Annotations })
			}, "c Bound v; v Bound c",
		},
		{
			"a scheduler's choice",
			[]client.Object{late(staticClass("a")), liveClaim("c", "a"), liveVolume("v", "a")},
			"c Pending; v Available",
			func(w *testCluster) {
				claim := apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{})[0]
				edit(w, liveVolume("v", ""), func(v *corev1.PersistentVolume) {
					v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "c", UID: claim.UID}
				})
			}, "c Bound v; v Bound c",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *testCluster) {
				w.start()
				for _, o := range tc.there {
					w.create(o.DeepCopyObject().(client.Object))
				}
				w.expect(tc.waits)
				tc.then(w)
				w.expect(tc.expect)
			})
		})
	}
}

func selecting(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	return claim
}

// 1.12, 2.1: a foreign provisioner gets what upstream writes; then three writes bind.
func TestDynamic(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.start()
		w.create(liveClaim("c", "gold"))
		w.told(`c Warning ProvisioningFailed storageclass.storage.k8s.io "gold" not found`)
		w.create(dynamicClass("gold"))
		w.did(p, "1 claim")
		w.told("c Normal ExternalProvisioning Waiting for a volume to be created either by the external pr")
		claim := apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{})[0]
		if claim.Annotations[names.AnnStorageProvisioner] != "d" || claim.Annotations[names.AnnBetaStorageProvisioner] != "d" {
			t.Errorf("C4: %v", claim.Annotations)
		}
		w.create(provisioned("pvc-1", claim))
		w.expect("c Bound pvc-1; pvc-1 Bound c")
		w.did(p, "1 claim, 1 claim status, 1 volume status")
		w.told()
		w.remove(claim)
		w.expect("pvc-1 Released c")
		w.did(p, "1 volume status") // D4: one write and no read
	})
}

func provisioned(name string, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	pv := liveVolume(name, *claim.Spec.StorageClassName)
	pv.Annotations = map[string]string{names.AnnProvisionedBy: "d"}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	return pv
}

// inProcess is a provisioner in this process.
type inProcess struct {
	mu    sync.Mutex
	works bool
	given []string
}

func (p *inProcess) Takes(driver string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.works && driver == "d"
}

func (p *inProcess) Give(claim *corev1.PersistentVolumeClaim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given = append(p.given, claim.Name)
}

// last is the claim that was given last.
func (p *inProcess) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.given) == 0 {
		return ""
	}
	return p.given[len(p.given)-1]
}

func (p *inProcess) cease() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.works = false
}

// 6.2: with the provisioner in the same process the annotations are not written; when it ceases to
// work, they are.
func TestHandOver(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		own := &inProcess{works: true}
		p := w.start(func(c *Config) { c.HandOver, c.Workers = own, 1 })
		w.create(dynamicClass("gold"), liveClaim("c", "gold"), liveVolume("v", "gold"), liveClaim("d", "gold"))
		w.expect("c Bound v; d Pending; v Bound c") // a volume that is there goes first
		if own.last() != "d" {
			t.Errorf("given %q", own.last())
		}
		w.told()
		p.api.take()
		own.cease()
		p.Recheck("d")
		w.settle()
		w.did(p, "1 claim")
		w.told("d Normal ExternalProvisioning Waiting for a volume to be created either by the external pr")
	})
}

func podUsing(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

// Classes that wait for a pod: the claim is not asked for before it has a node, and people are told
// which pods it waits for. 8.23
func TestDelayed(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		own := &inProcess{works: true}
		p := w.start(func(c *Config) { c.HandOver = own })
		class := dynamicClass("late")
		class.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
		claim := liveClaim("c", "late")
		w.create(class, claim, liveVolume("v", "late"))
		w.expect("c Pending; v Available")
		w.told("c Normal WaitForFirstConsumer waiting for first consumer to be created before binding")
		pod := func(name string) *corev1.Pod { return podUsing(name, "c") }
		w.create(pod("a"))
		w.told("c Normal WaitForPodScheduled waiting for pod a to be scheduled")
		w.create(pod("b"))
		w.told("c Normal WaitForPodScheduled waiting for pods a,b to be scheduled")
		edit(w, pod("a"), func(p *corev1.Pod) { p.Spec.NodeName = "n1" })
		w.told("c Normal WaitForPodScheduled waiting for pod b to be scheduled")
		w.unscheduled(pod("b"), "0/3 nodes are available")
		w.told("c Normal WaitForPodScheduled waiting for pod b to be scheduled (b: 0/3 nodes are availabl")
		w.unscheduled(pod("b"), "0/4 nodes are available") // a scheduler says much
		w.told()
		w.remove(pod("b"))
		w.told("c Normal WaitForFirstConsumer waiting for first consumer to be created before binding: pod") // 8.21
		if own.last() != "" {
			t.Error("given before it has a node")
		}
		edit(w, claim, func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{names.AnnSelectedNode: "n1"}
		})
		if own.last() == "" {
			t.Error("not given with a node")
		}
		w.did(p, "1 volume status") // that it is available
	})
}

// unscheduled is the scheduler, which says why the pod has no node.
func (w *testCluster) unscheduled(pod *corev1.Pod, why string) {
	w.Helper()
	if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		w.Fatal(err)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: why}}
	if err := w.api.Status().Update(w.ctx, pod); err != nil {
		w.Fatal(err)
	}
	w.settle()
}

// What is said once is not said again, however often it is looked at, until its words change or
// much time has passed.
func TestEventsAreToldOnce(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.start()
		w.create(liveClaim("c", ""))
		const text = "c Normal FailedBinding no persistent volumes available for this claim and no storag"
		w.told(text)
		for range 10 {
			p.wake(p.ledger.keys())
			w.settle()
		}
		w.told()
		time.Sleep(reconcile.TellAgain)
		p.wake(p.ledger.keys())
		w.settle()
		w.told(text)
	})
}

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
			p.ledger.claimSeen(types.NamespacedName{Namespace: "default", Name: "gone"}, liveClaim("gone", "a"), nil) // of no interest
			claim := liveClaim("c", "a")
			w.create(claim)
			w.create(provisioned("v", claim))
			// The ledger learns of the volume only.
			pv := apiserver.Objects(w.server, &corev1.PersistentVolume{})[0]
			p.ledger.volumeSeen("v", pv, pv)
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
	t.Run("a claim that is going is not gone (P7)", func(t *testing.T) {
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

// P8: whatever was written before a crash, the next binder goes on from there.
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

// D1: another client changed the volume a moment before. It is read, and decided again, at once.
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

// P3: many claims and as many volumes, at once and in any order. Each gets one, none is refused,
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
		if len(p.ledger.held)+len(p.ledger.holds)+p.ledger.index.Waiting() != 0 {
			t.Errorf("%d held, %d holds, %d wait", len(p.ledger.held), len(p.ledger.holds), p.ledger.index.Waiting())
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
		w.told("c Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volum")
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

// The audit finds what no wake-up told.
func TestAudit(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.start(func(c *Config) { c.AuditEvery = 10 * time.Minute })
		w.create(liveVolume("v", "a"), liveClaim("c", "a"))
		w.expect("c Bound v; v Bound c")
		var writes atomic.Int32
		p.api.meet(func(client.Object, string) error { writes.Add(1); return nil })
		time.Sleep(time.Hour)
		if writes.Load() > 0 {
			t.Errorf("I5: %d writes in an hour of rest", writes.Load())
		}
		p.ledger.mu.Lock() // as if the handler had forgotten to enqueue a claim
		key := types.NamespacedName{Namespace: "default", Name: "c"}
		claim := p.ledger.claims[key].DeepCopy()
		claim.Annotations = nil
		p.ledger.claims[key] = claim
		p.ledger.mu.Unlock()
		time.Sleep(20 * time.Minute)
		if writes.Load() == 0 {
			t.Error("the audit looks at nothing")
		}
	})
}
