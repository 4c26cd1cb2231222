package binder

import (
	"context"
	"math/rand/v2"

	"github.com/purser-csi/purser/internal/core/binding"
)

// auditSteps is in how many parts every pair is looked at, so that no burst of work comes of it.
const auditSteps = 60

// audit looks at everything once in a while, little by little. Nothing should ever be found: it is there for a wake-up that was
// forgotten, and for what one cannot think of.
func (c *Controller) audit(ctx context.Context) error {
	for {
		all := c.ledger.keys()
		part := len(all)/auditSteps + 1
		for range auditSteps {
			step := c.AuditEvery / auditSteps
			select {
			case <-ctx.Done():
				return nil
			case <-c.Clock.After(step/2 + rand.N(step+1)): // unlike those of other processes
			}
			n := min(part, len(all))
			c.wake(c.restless(all[:n:n]))
			all = all[n:]
		}
	}
}

// keys are those of everything that there is.
func (l *ledger) keys() []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]binding.Key, 0, len(l.claims))
	for key := range l.claims {
		all = append(all, binding.Key{Claim: key})
	}
	for name, pv := range l.volumes {
		if pv.Spec.ClaimRef == nil {
			all = append(all, binding.Key{Volume: name})
		} else if key := refKey(pv); l.claims[key] == nil {
			all = append(all, binding.Key{Claim: key})
		}
	}
	return all
}
