package binder

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/names"
)

func seen[T corev1.PersistentVolume | corev1.PersistentVolumeClaim](o *T, uid types.UID, version string, edits ...func(*T)) *T {
	switch o := any(o).(type) {
	case *corev1.PersistentVolume:
		o.UID, o.ResourceVersion, o.Status.Phase = uid, version, corev1.VolumeAvailable
	case *corev1.PersistentVolumeClaim:
		o.UID, o.ResourceVersion = uid, version
	}
	for _, edit := range edits {
		edit(o)
	}
	return o
}

// look is what a run does with the store before it writes: it holds the offered volume, or has the
// claim wait for one.
func look(l *objectStore, key binding.Key, now answers) (s binding.Snapshot, affected []binding.Key) {
	s = l.gather(key, now)
	if s.Offer == nil {
		return s, l.ended(s)
	}
	_, affected = l.reserve(s.Claim)
	return s, affected
}

// C1: a volume that came for one claim is compared again with the claim that is there when it is
// taken, which may have taken the name of the first, or got a class since. Whom the volume suits
// instead is enqueued for it.
func TestHeldForAnother(t *testing.T) {
	claim := types.NamespacedName{Namespace: "default", Name: "c"}
	key, other := binding.Key{Claim: claim}, binding.Key{Claim: types.NamespacedName{Namespace: "default", Name: "d"}}
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"larger": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("100Gi")
		},
		"of a class":    func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("b") },
		"of block mode": func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) },
		"that selects":  selectsGold,
	} {
		t.Run(name, func(t *testing.T) {
			l := newObjectStore()
			first, second := seen(liveClaim("c", "a"), "1", "1"), seen(liveClaim("c", "a"), "2", "3", change)
			l.claimSeen(claim, first, first)
			look(l, key, answers{})
			l.claimSeen(claim, first, nil)
			l.claimSeen(claim, second, second)
			v := seen(liveVolume("v", "a"), "v", "4")
			if keys := l.volumeSeen("v", v, v); !slices.Contains(keys, key) {
				t.Fatalf("the volume enqueues %v", keys)
			}
			waiting := seen(liveClaim("d", "a"), "3", "5")
			l.claimSeen(other.Claim, waiting, waiting)
			look(l, other, answers{})
			s, affected := look(l, key, answers{})
			if s.Offer != nil || !slices.Equal(affected, []binding.Key{other}) {
				t.Errorf("offered %v, enqueued %v", s.Offer, affected)
			}
			l.endRun(claim)
			if s, _ := look(l, other, answers{}); s.Offer != v {
				t.Errorf("offered to the other: %v", s.Offer)
			}
		})
	}
}

// A volume that changes while it is held is compared again, too.
func TestChangedWhileHeld(t *testing.T) {
	claim := types.NamespacedName{Namespace: "default", Name: "c"}
	l := newObjectStore()
	c, v := seen(liveClaim("c", "a"), "1", "1"), seen(liveVolume("v", "a"), "v", "2")
	l.claimSeen(claim, c, c)
	look(l, binding.Key{Claim: claim}, answers{})
	l.volumeSeen("v", v, v)
	changed := seen(liveVolume("v", "b"), "v", "3")
	l.volumeSeen("v", changed, changed)
	if s, _ := look(l, binding.Key{Claim: claim}, answers{}); s.Offer != nil {
		t.Errorf("offered %v", s.Offer)
	}
	if keys := l.endRun(claim); len(keys) > 0 {
		t.Errorf("enqueued %v", keys)
	}
}

// C1: a volume that is held for a claim when another client binds that to another one is there for
// others again: the claim, which needs nothing, is looked at nevertheless.
func TestHeldForOneBoundElsewhere(t *testing.T) {
	claim := types.NamespacedName{Namespace: "default", Name: "c"}
	key, other := binding.Key{Claim: claim}, binding.Key{Claim: types.NamespacedName{Namespace: "default", Name: "d"}}
	b := New(Config{})
	l := b.objectStore
	waits, d, v := seen(liveClaim("c", "a"), "1", "1"), seen(liveClaim("d", "a"), "2", "2"), seen(liveVolume("v", "a"), "v", "3")
	l.claimSeen(claim, waits, waits)
	look(l, key, answers{})
	l.volumeSeen("v", v, v)
	l.claimSeen(other.Claim, d, d)
	if s, _ := look(l, other, answers{}); s.Offer != nil {
		t.Fatal("the volume is not held")
	}
	taken := seen(liveVolume("w", "a"), "w", "4", func(pv *corev1.PersistentVolume) {
		pv.Status.Phase, pv.Spec.ClaimRef = corev1.VolumeBound, &corev1.ObjectReference{Namespace: "default", Name: "c", UID: "1"}
	})
	bound := seen(liveClaim("c", "a"), "1", "5", func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{names.AnnBindCompleted: "yes"}
		c.Spec.VolumeName, c.Status.Phase, c.Status.AccessModes = "w", corev1.ClaimBound, taken.Spec.AccessModes
	})
	l.volumeSeen("w", taken, taken)
	if keys := b.restless(l.claimSeen(claim, bound, bound)); !slices.Equal(keys, []binding.Key{key}) {
		t.Fatalf("looked at: %v", keys)
	}
	look(l, key, answers{})
	if affected := l.endRun(claim); !slices.Equal(affected, []binding.Key{other}) {
		t.Errorf("enqueued: %v", affected)
	}
	if s, _ := look(l, other, answers{}); s.Offer != v {
		t.Errorf("offered to the other: %v", s.Offer)
	}
	if keys := b.restless([]binding.Key{key}); len(keys) > 0 {
		t.Errorf("left alone, and looked at: %v", keys)
	}
}

// 1.6: a claim that names a volume takes it from the one that it is held for, which looks for
// another one at once: to be given the default class cannot be undone.
func TestHeldAndTakenByAnother(t *testing.T) {
	key, other := binding.Key{Claim: types.NamespacedName{Namespace: "default", Name: "y"}}, types.NamespacedName{Namespace: "default", Name: "x"}
	l := newObjectStore()
	y, v, v2 := seen(liveClaim("y", "a"), "1", "1"), seen(liveVolume("v", "a"), "v", "2"), seen(liveVolume("v2", "a"), "v2", "3")
	l.claimSeen(key.Claim, y, y)
	look(l, key, answers{})
	if keys := l.volumeSeen("v", v, v); !slices.Contains(keys, key) {
		t.Fatalf("the volume enqueues %v", keys)
	}
	l.volumeSeen("v2", v2, v2)
	taken := v.DeepCopy()
	taken.ResourceVersion, taken.Spec.ClaimRef = "4", &corev1.ObjectReference{Namespace: other.Namespace, Name: other.Name, UID: "2"}
	if keys := l.commit(taken); !slices.Equal(keys, []binding.Key{key}) {
		t.Errorf("enqueued %v", keys)
	}
	if s, _ := look(l, key, answers{}); s.Offer != v2 {
		t.Errorf("offered %v", s.Offer)
	}
}

// A claim whose volume turns out to be gone, or to be shown by no watch after a while, looks
// for another one, whether or not that was written already.
func TestHeldAndGone(t *testing.T) {
	key := binding.Key{Claim: types.NamespacedName{Namespace: "default", Name: "y"}}
	for _, committed := range []bool{false, true} {
		for name, lose := range map[string]func(*objectStore, *corev1.PersistentVolume) []binding.Key{
			"gone": func(l *objectStore, pv *corev1.PersistentVolume) []binding.Key {
				return l.withdraw(pv.Name, []types.UID{pv.UID})
			},
			"unseen": func(l *objectStore, pv *corev1.PersistentVolume) []binding.Key { return l.forgetUnwatched(pv) },
		} {
			t.Run(fmt.Sprint(name, ", committed: ", committed), func(t *testing.T) {
				l := newObjectStore()
				y, v := seen(liveClaim("y", "a"), "1", "1"), seen(liveVolume("v", "a"), "v", "2")
				l.claimSeen(key.Claim, y, y)
				look(l, key, answers{})
				if keys := l.wroteVolume(v); !slices.Contains(keys, key) {
					t.Fatalf("the volume enqueues %v", keys)
				}
				if committed {
					v = v.DeepCopy()
					v.ResourceVersion, v.Spec.ClaimRef = "3", &corev1.ObjectReference{Namespace: "default", Name: "y", UID: "1"}
					l.commit(v)
				}
				if keys := lose(l, v); !slices.Contains(keys, key) {
					t.Errorf("enqueued %v", keys)
				}
				if s, _ := look(l, key, answers{}); s.Offer != nil || l.index.Waiting() != 1 {
					t.Errorf("offered %v, %d wait", s.Offer, l.index.Waiting())
				}
			})
		}
	}
}

// A claim that is left alone for a while keeps no volume from others meanwhile.
func TestHeldForOneThatRests(t *testing.T) {
	key, other := types.NamespacedName{Namespace: "default", Name: "c"}, binding.Key{Claim: types.NamespacedName{Namespace: "default", Name: "d"}}
	b, queue := New(Config{}), &keyRecorder{}
	b.workQueue.set(queue)
	l, rests := b.objectStore, b.Loop().Rests
	c, d, v := seen(liveClaim("c", "a"), "1", "1"), seen(liveClaim("d", "a"), "2", "2"), seen(liveVolume("v", "a"), "v", "3")
	l.claimSeen(key, c, c)
	look(l, binding.Key{Claim: key}, answers{})
	if keys := l.volumeSeen("v", v, v); !slices.Contains(keys, binding.Key{Claim: key}) {
		t.Fatalf("the volume enqueues %v", keys)
	}
	l.claimSeen(other.Claim, d, d)
	look(l, other, answers{})
	rests(binding.Key{Claim: key})
	if keys := queue.take(); !slices.Equal(keys, []binding.Key{other}) {
		t.Errorf("enqueued %v", keys)
	}
	if s, _ := look(l, other, answers{}); s.Offer != v {
		t.Errorf("offered to the other: %v", s.Offer)
	}
	if rests(binding.Key{Claim: key}); l.holds[other.Claim] == nil || l.index.Waiting() > 0 {
		t.Errorf("held for the other: %v; %d wait", l.holds[other.Claim], l.index.Waiting())
	}
}

// C1, I3: when the answer to the write that takes a volume is lost, the claim keeps to that volume
// until the next run knows whether it has it, and no other claim gets it meanwhile.
func TestHeldWithoutAnAnswer(t *testing.T) {
	key, other := binding.Key{Claim: types.NamespacedName{Namespace: "default", Name: "c"}}, binding.Key{Claim: types.NamespacedName{Namespace: "default", Name: "d"}}
	l := newObjectStore()
	c, d := seen(liveClaim("c", "a"), "1", "1"), seen(liveClaim("d", "a"), "2", "2")
	v, w := seen(liveVolume("v", "a"), "v", "3"), seen(liveVolume("w", "a"), "w", "4")
	l.volumeSeen("v", v, v)
	l.volumeSeen("w", w, w)
	l.claimSeen(key.Claim, c, c)
	l.claimSeen(other.Claim, d, d)
	if s, _ := look(l, key, answers{}); s.Offer != v {
		t.Fatalf("offered %v", s.Offer)
	}
	l.unanswered("v")
	l.endRun(key.Claim)
	if s, _ := look(l, other, answers{}); s.Offer != w {
		t.Errorf("the other is offered %v", s.Offer)
	}
	if s, _ := look(l, key, answers{}); s.Offer != v {
		t.Errorf("then offered %v", s.Offer)
	}

	taken := v.DeepCopy()
	taken.ResourceVersion, taken.Spec.ClaimRef = "5", &corev1.ObjectReference{Namespace: "default", Name: "c", UID: "1"}
	l.wroteVolume(taken) // as the API server says
	l.endRun(key.Claim)
	for _, now := range []answers{{volumes: map[string]*corev1.PersistentVolume{"v": taken}}, {}} {
		if s, _ := look(l, key, now); s.Offer != nil || binding.Reserved(s) != taken {
			t.Errorf("it has a volume, and is offered %v beside %v", s.Offer, s.Refs)
		}
		l.endRun(key.Claim)
	}
	if l.volumeSeen("v", taken, taken); len(l.holds) > 1 {
		t.Errorf("held for ever: %v", l.holds)
	}
}

// The response of the API server about a volume that was not held counts like a watch event.
func TestReservedAsTheAPIServerSays(t *testing.T) {
	key := binding.Key{Claim: types.NamespacedName{Namespace: "default", Name: "c"}}
	l := newObjectStore()
	c, v := seen(liveClaim("c", "a"), "1", "1"), seen(liveVolume("v", "a"), "v", "2")
	l.claimSeen(key.Claim, c, c)
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "c"}
	if s, _ := look(l, key, answers{volumes: map[string]*corev1.PersistentVolume{"v": v}}); binding.Reserved(s) != v {
		t.Errorf("not for the claim: %v", s.Refs)
	}
}
