package binder

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// A write that the API server always rejects is not retried as a stale read for ever: after live
// reads of both objects the rejection counts as final.
func TestRefusedForGood(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.prepare(func(c *Config) { c.Backoff.First, c.Backoff.Most = time.Hour, time.Hour })
		refused := 0
		p.api.meet(func(o client.Object, what string) error {
			if what == "claim" {
				refused++
				return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim").GroupKind(), o.GetName(), nil)
			}
			return nil
		})
		v := liveVolume("v", "a")
		v.Status.Phase = corev1.VolumeAvailable
		w.create(v, liveClaim("c", "a"))
		w.run(p)
		w.expect("c Pending; v Bound c")
		const few = 5 // on what is remembered, on what is, and when the watch shows what was written; each decision in a row would be 10
		if refused > few {
			t.Errorf("tried %d times, want at most %d", refused, few)
		}
	})
}

// A finding about a claim that was created again under the same name is emitted on the new claim.
func TestToldOfTheRightClaim(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		told := &uids{}
		p := w.prepare(func(c *Config) { c.Events = told })
		v := liveVolume("v", "")
		v.Status.Phase = corev1.VolumeAvailable
		w.create(v, liveClaim("c", ""))
		first, pv := apiserver.Objects(w.server, liveClaim("c", ""))[0], apiserver.Objects(w.server, v)[0]
		w.remove(first.DeepCopy())
		w.create(liveClaim("c", ""))
		second := apiserver.Objects(w.server, liveClaim("c", ""))[0]
		key := types.NamespacedName{Namespace: "default", Name: "c"}
		p.objectStore.claimSeen(key, first, first) // memory is behind
		p.objectStore.volumeSeen("v", pv, pv)
		if _, err := p.Loop().Reconcile(t.Context(), binding.Key{Claim: key}); err != nil {
			t.Fatal(err)
		}
		if len(*told) != 1 || (*told)[0] != second.UID {
			t.Errorf("told of %v, want %s alone, and not %s", *told, second.UID, first.UID)
		}
	})
}

// uids are those of the claims that events are about.
type uids []types.UID

func (u *uids) Event(o runtime.Object, _, _, _ string) {
	if claim, ok := o.(*corev1.PersistentVolumeClaim); ok {
		*u = append(*u, claim.UID)
	}
}

// 8.14, I3: that a volume outlives its claim is seen before it is condemned, though no watch shows
// it.
func TestKeptAtTheLastMoment(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.prepare()
		v, c := liveVolume("v", "a"), liveClaim("c", "a")
		w.create(v, c)
		claim := apiserver.Objects(w.server, c)[0]
		edit(w, v, func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		})
		before := apiserver.Objects(w.server, v)[0]
		key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		p.objectStore.claimSeen(key, claim, claim)
		p.objectStore.volumeSeen("v", before, before)
		edit(w, v, func(v *corev1.PersistentVolume) {
			v.Annotations = map[string]string{names.AnnReuse: names.ReuseSameName}
		})
		w.remove(claim.DeepCopy())
		p.objectStore.claimSeen(key, claim, nil)
		if _, err := p.Loop().Reconcile(t.Context(), binding.Key{Claim: key}); err != nil {
			t.Fatal(err)
		}
		if got := apiserver.Objects(w.server, v)[0]; got.Status.Phase == corev1.VolumeReleased || got.Spec.ClaimRef.UID != "" {
			t.Errorf("the volume is %s, for %q", got.Status.Phase, got.Spec.ClaimRef.UID)
		}
	})
}

// I5, 8.14: the result of a live read of a claim or volume wins over a stale watch. Else a volume
// that is offered again would be bound for the previous claim and released again, without end.
func TestAnswersAreBelieved(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.prepare()
		v := liveVolume("v", "")
		v.Annotations = map[string]string{names.AnnReuse: names.ReuseAny}
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		bound := liveClaim("c", "")
		bound.Annotations = map[string]string{names.AnnBindCompleted: "yes"}
		bound.Spec.VolumeName = "v" // and not called Bound yet
		claim := func() *corev1.PersistentVolumeClaim { return apiserver.Objects(w.server, bound)[0] }
		volume := func() *corev1.PersistentVolume { return apiserver.Objects(w.server, v)[0] }
		run := func(c *corev1.PersistentVolumeClaim) {
			if _, err := p.Loop().Reconcile(t.Context(), binding.Key{Claim: keyOf(c)}); err != nil {
				t.Fatal(err)
			}
		}
		w.create(v, bound)
		former := claim()
		w.remove(former.DeepCopy())
		p.objectStore.claimSeen(keyOf(former), former, former) // and never that it is gone
		p.objectStore.volumeSeen("v", volume(), volume())
		p.api.meet(func(client.Object, string) error { // the watch of volumes is not behind
			p.objectStore.volumeSeen("v", volume(), volume())
			return nil
		})
		run(former)
		p.api.meet(nil)
		w.expect("v Bound") // without a claim: its phase is for another run
		p.objectStore.volumeSeen("v", volume(), volume())
		p.api.take()
		run(former)
		w.did(p, "")

		forced := volume()
		w.remove(forced.DeepCopy()) // which is never seen either
		bound.Name, bound.ResourceVersion = "d", ""
		w.create(bound)
		for range 2 {
			p.objectStore.claimSeen(keyOf(claim()), claim(), claim())
			run(claim())
		}
		w.expect("d Lost v")
		p.api.take()
		run(claim())
		w.did(p, "")
	})
}

// I2: a volume that the API server had, and that no watch ever shows, is asked for again until one
// does: it may have gone while the watch was broken.
func TestVolumeThatNoWatchShows(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.prepare()
		queue := &keyRecorder{}
		p.workQueue.set(queue)
		v, bound := liveVolume("v", ""), liveClaim("c", "")
		bound.Annotations = map[string]string{names.AnnBindCompleted: "yes"}
		bound.Spec.VolumeName = "v"
		w.create(v, bound)
		claim := func() *corev1.PersistentVolumeClaim { return apiserver.Objects(w.server, bound)[0] }
		edit(w, v, func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: bound.Namespace, Name: bound.Name, UID: claim().UID}
		})
		look := func() {
			p.objectStore.claimSeen(keyOf(claim()), claim(), claim())
			if _, err := p.Loop().Reconcile(t.Context(), binding.Key{Claim: keyOf(bound)}); err != nil {
				t.Fatal(err)
			}
			queue.take()
		}
		look()
		w.expect("c Bound v; v Bound c")
		w.remove(apiserver.Objects(w.server, v)[0].DeepCopy())
		look()
		w.expect("c Bound v")
		time.Sleep(unseenLook)
		if keys := queue.take(); !slices.Contains(keys, binding.Key{Claim: keyOf(bound)}) {
			t.Errorf("enqueued: %v", keys)
		}
		look()
		w.expect("c Lost v")

		w.create(liveVolume("v2", ""))
		other := apiserver.Objects(w.server, v)[0]
		p.objectStore.wroteVolume(other)
		p.expireLiveRead(func() []binding.Key { return p.objectStore.forgetUnwatched(other) })
		p.objectStore.volumeSeen(other.Name, other, other)
		time.Sleep(unseenLook)
		if keys := queue.take(); p.objectStore.newestVolume(other.Name) == nil || len(keys) > 0 {
			t.Errorf("a volume that the watch shows is doubted: %v", keys)
		}

		next := other.DeepCopy()
		next.UID, next.ResourceVersion = "next", "9000"
		p.objectStore.volumeSeen(next.Name, other, nil)
		p.objectStore.volumeSeen(next.Name, next, next)
		next = next.DeepCopy()
		next.ResourceVersion, next.Spec.ClaimRef = "9001", &corev1.ObjectReference{Namespace: "default", Name: "c", UID: "c"}
		p.objectStore.wroteVolume(next)
		if keys := p.objectStore.forgetUnwatched(other); p.objectStore.newestVolume(next.Name) != next || len(keys) > 0 {
			t.Errorf("what was written to the next volume of the name is forgotten: %v", keys)
		}
	})
}

// I7: and so is a claim that the API server had: its volume would never be released.
func TestClaimThatNoWatchShows(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.prepare()
		queue := &keyRecorder{}
		p.workQueue.set(queue)
		v, c := liveVolume("v", ""), liveClaim("c", "")
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		w.create(c, v)
		claim := apiserver.Objects(w.server, c)[0]
		edit(w, v, func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: claim.UID}
		})
		key := binding.Key{Claim: keyOf(c)}
		look := func() {
			now := apiserver.Objects(w.server, v)[0]
			p.objectStore.volumeSeen("v", now, now)
			if _, err := p.Loop().Reconcile(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		look()
		w.expect("c Bound v; v Bound c")
		w.remove(apiserver.Objects(w.server, c)[0])
		look()
		w.expect("v Bound c")
		queue.take()
		if time.Sleep(unseenLook); !slices.Contains(queue.take(), key) {
			t.Error("it is not looked at again")
		}
		look()
		w.expect("v Released c")

		p.objectStore.claimSeen(key.Claim, claim, claim)
		if keys := p.objectStore.doubtClaim(claim); len(keys) > 0 {
			t.Errorf("a claim that the watch shows is doubted: %v", keys)
		}
	})
}

// keyRecorder is a queue that records the keys that were enqueued.
type keyRecorder struct {
	queue
	mu   sync.Mutex
	keys []binding.Key
}

func (a *keyRecorder) Add(key binding.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys = append(a.keys, key)
}

// take returns the keys since the last call.
func (a *keyRecorder) take() []binding.Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	keys := a.keys
	a.keys = nil
	return keys
}

// I7, I2: one name says nothing of another uid. What took the name of an object while the watch was
// broken is asked for again, too, also when the watch shows no more than the end of the previous one.
func TestOneThatTookTheNameAndNoWatchShows(t *testing.T) {
	for _, ended := range []bool{false, true} {
		t.Run(fmt.Sprint("a claim, end of the previous one seen: ", ended), func(t *testing.T) {
			inWorld(t, func(w *testCluster) {
				o := w.overlook()
				former := apiserver.Objects(w.server, o.claim)[0]
				w.remove(former.DeepCopy())
				w.create(liveClaim("c", ""))
				second := apiserver.Objects(w.server, o.claim)[0]
				edit(w, o.volume, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = second.UID })
				now := apiserver.Objects(w.server, o.volume)[0]
				o.objectStore.volumeSeen("v", now, now)
				o.run(w)
				w.expect("c Bound v; v Bound c")
				now = apiserver.Objects(w.server, o.volume)[0]
				o.objectStore.volumeSeen("v", now, now)
				w.remove(second.DeepCopy())
				if ended {
					o.claimSeen(former, nil)
				}
				o.again(w)
				w.expect("v Released c")
			})
		})
		t.Run(fmt.Sprint("a volume, end of the previous one seen: ", ended), func(t *testing.T) {
			inWorld(t, func(w *testCluster) {
				o := w.overlook()
				former := apiserver.Objects(w.server, o.volume)[0]
				w.remove(former.DeepCopy())
				second := liveVolume("v", "")
				second.Spec.ClaimRef = former.Spec.ClaimRef
				w.create(second)
				claim := o.objectStore.newestClaim(o.key.Claim).DeepCopy()
				claim.Status.Phase = corev1.ClaimLost // the previous one was seen to go
				if err := w.api.Status().Update(w.ctx, claim); err != nil {
					t.Fatal(err)
				}
				o.objectStore.claimSeen(o.key.Claim, claim, claim)
				o.run(w)
				w.expect("c Bound v; v Bound c")
				now := apiserver.Objects(w.server, o.claim)[0]
				o.objectStore.claimSeen(o.key.Claim, now, now)
				w.remove(apiserver.Objects(w.server, o.volume)[0].DeepCopy())
				if ended {
					o.volumeSeen(former, nil)
					o.again(w)
					w.expect("c Lost v")
					return
				}
				o.again(w) // the previous one is bound to the claim, as far as the cache shows
				if o.volumeSeen(former, nil); !slices.Contains(o.queue.take(), o.key) {
					t.Error("its end enqueues nothing")
				}
				o.run(w)
				w.expect("c Lost v")
			})
		})
	}
}

// A conflict about one volume reads that one, however many have belonged to claims of the
// name.
func TestAConflictReadsWhatItIsAbout(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		p := w.prepare()
		for i := range 20 {
			former := liveVolume(fmt.Sprint("former", i), "a")
			former.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "c", UID: types.UID(fmt.Sprint("former", i))}
			former.Status.Phase = corev1.VolumeReleased
			former.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			w.create(former)
		}
		v := liveVolume("v", "a")
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		v.Status.Phase = corev1.VolumeAvailable
		w.create(v, liveClaim("c", "a"))
		once := false
		p.api.meet(func(_ client.Object, what string) error {
			if what != "volume" || once {
				return nil
			}
			once = true
			pv := apiserver.Objects(w.server, v)[20]
			pv.Labels = map[string]string{"new": "yes"}
			return w.api.Update(w.ctx, pv)
		})
		w.run(p)
		if claim := apiserver.Objects(w.server, liveClaim("c", ""))[0]; claim.Status.Phase != corev1.ClaimBound {
			t.Errorf("the claim is %s", claim.Status.Phase)
		}
		w.did(p, "1 claim, 1 claim status, 1 refused, 1 volume status, 2 get, 2 volume")
	})
}
