package binder

import (
	"context"
	"hash/maphash"
	"math/rand/v2"

	"github.com/purser-csi/purser/internal/core/binding"
)

// auditSteps is in how many parts every pair is looked at, so that no burst of work comes of it.
const auditSteps = 60

// audit looks at everything once in a while, little by little. Nothing should ever be found: it is there for a wake-up that was
// forgotten, and for what one cannot think of. Which part a key belongs to follows from the key: a list of them all would be kept for
// as long as the audit takes.
func (c *Controller) audit(ctx context.Context) error {
	seed, step := maphash.MakeSeed(), c.AuditEvery/auditSteps
	for part := uint64(0); ; part = (part + 1) % auditSteps {
		select {
		case <-ctx.Done():
			return nil
		case <-c.Clock.After(step/2 + rand.N(step+1)): // unlike those of other processes
		}
		c.wake(c.restless(c.ledger.keys(func(key binding.Key) bool { return maphash.Comparable(seed, key)%auditSteps == part })))
	}
}

// keys are those of everything that there is and that is wanted.
func (l *ledger) keys(wanted func(binding.Key) bool) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []binding.Key
	add := func(key binding.Key) {
		if wanted(key) {
			all = append(all, key)
		}
	}
	for key := range l.claims {
		add(binding.Key{Claim: key})
	}
	for _, pv := range l.volumes {
		key := binding.KeyOf(pv)
		if key.Volume != "" && !l.spokenFor(pv) || key.Volume == "" && l.claims[key.Claim] == nil {
			add(key)
		}
	}
	return all
}

func everything(binding.Key) bool { return true }
