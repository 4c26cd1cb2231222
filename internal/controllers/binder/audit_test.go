package binder

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/binding"
)

// What is there all the while comes once in a round, whatever comes and goes beside it, and no part
// is a burst of work.
func TestRound(t *testing.T) {
	const pairs, free = 600, 300
	c := New(Config{})
	for i := range pairs {
		claim, pv := boundPair(i)
		c.claimSeen(claim, claim)
		c.volumeSeen(pv, pv)
	}
	want := map[binding.Key]int{}
	for _, key := range c.ledger.keys() {
		want[key] = 1
	}
	for i := range free {
		c.volumeSeen(passing(i, free), passing(i, free))
	}
	r := round{ledger: c.ledger}
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
