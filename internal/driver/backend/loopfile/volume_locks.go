package loopfile

import (
	"context"
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// volumeLocks lets one call at a time work on a volume. For example, a snapshot must not be taken
// of a volume that is being staged. The package driver need not know such rules.
type volumeLocks struct {
	mu      sync.Mutex
	running map[backend.ID]lockHolder
}

type lockHolder struct {
	what  string
	since time.Time
	done  chan struct{}
}

// tryLock does not wait, since the caller of the driver retries.
func (t *volumeLocks) tryLock(id backend.ID, what string) (release func(), err error) {
	release, other := t.acquire(id, what)
	if release == nil {
		return nil, busy(id, what, other)
	}
	return release, nil
}

// lock waits until the volume is free. It is for copies: many can be requested at once, and other
// calls rarely hold the lock for long.
func (t *volumeLocks) lock(ctx context.Context, id backend.ID, what string) (release func(), err error) {
	for {
		release, other := t.acquire(id, what)
		if release != nil {
			return release, nil
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, busy(id, what, other)
		}
	}
}

func (t *volumeLocks) acquire(id backend.ID, what string) (release func(), other lockHolder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other, busy := t.running[id]; busy {
		return nil, other
	}
	if t.running == nil {
		t.running = map[backend.ID]lockHolder{}
	}
	own := lockHolder{what: what, since: time.Now(), done: make(chan struct{})}
	t.running[id] = own
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.running, id)
		close(own.done)
	}, lockHolder{}
}

func busy(id backend.ID, what string, other lockHolder) error {
	return fault.Busy.Errorf(
		"cannot %s volume %q now: to %s it has been running for %s; try again",
		what,
		id,
		other.what,
		time.Since(other.since).Round(time.Millisecond),
	)
}
