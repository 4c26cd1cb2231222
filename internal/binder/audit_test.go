package binder

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	binding "github.com/purser-csi/purser/internal/binder/rules"
)

// A key that exists during a whole round is enqueued once in it, whatever keys are added and
// removed meanwhile, and no part is a burst of work.
func TestRound(t *testing.T) {
	const pairs, free = 600, 300
	c := New(Config{})
	for i := range pairs {
		claim, pv := boundPair(i)
		c.claimSeen(claim, claim)
		c.volumeSeen(pv, pv)
	}
	want := map[binding.Key]int{}
	for _, key := range c.objectStore.keys() {
		want[key] = 1
	}
	for i := range free {
		c.volumeSeen(passing(i, free), passing(i, free))
	}
	r := round{objectStore: c.objectStore}
	defer r.end()
	for again := range 2 {
		seen := map[binding.Key]int{}
		parts := 0
		for whole := false; !whole; whole = r.next == nil {
			keys := r.part()
			if most := (2*pairs + free + free) / auditSteps; len(keys) > most {
				t.Fatalf("%d keys in a part, want at most %d", len(keys), most)
			}
			for _, key := range keys {
				seen[key]++
			}
			gone, came := passing(parts, free), passing(parts+1, free)
			c.volumeSeen(gone, nil)
			c.volumeSeen(came, came)
			parts++
		}
		if parts > auditSteps+1 {
			t.Errorf("round %d: %d parts, want %d", again, parts, auditSteps)
		}
		for key := range want {
			if seen[key] != 1 {
				t.Errorf("round %d: %s came %d times", again, key, seen[key])
			}
		}
	}
}

// passing is a volume without a claim that is there for a while.
func passing(i, all int) *corev1.PersistentVolume {
	pv := seen(liveVolume(fmt.Sprintf("passing-%d", i%all), "a"), types.UID(fmt.Sprint("passing-", i)), "1")
	pv.Spec.ClaimRef = nil
	return pv
}

// The audit enqueues a key that no event handler enqueued.
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
		p.objectStore.mu.Lock() // as if the handler had forgotten to enqueue a claim
		key := types.NamespacedName{Namespace: "default", Name: "c"}
		claim := p.objectStore.claims[key].DeepCopy()
		claim.Annotations = nil
		p.objectStore.claims[key] = claim
		p.objectStore.mu.Unlock()
		time.Sleep(20 * time.Minute)
		if writes.Load() == 0 {
			t.Error("the audit looks at nothing")
		}
	})
}
