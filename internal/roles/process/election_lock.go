package process

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// ElectionLock wraps the lock of the election and records its state, since the elector inside of
// the manager has no method for it.
type ElectionLock struct {
	resourcelock.Interface
	lease time.Duration
	clock clock.PassiveClock
	Slow  func() // called when a renewal had to read the lock again (ME-7)

	mu      sync.Mutex
	leading bool
	renewed time.Time
	failed  bool // the last renewal
}

func newElectionLock(lock resourcelock.Interface, lease time.Duration) *ElectionLock {
	return &ElectionLock{Interface: lock, lease: lease, clock: clock.RealClock{}, Slow: func() {}}
}

// Get implements resourcelock.Interface.
func (l *ElectionLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leading && l.failed {
		l.Slow()
		l.failed = false
	}
	if err == nil && record.HolderIdentity != l.Identity() {
		l.leading = false
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *ElectionLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(record, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l *ElectionLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.wrote(record, l.Interface.Update(ctx, record))
}

func (l *ElectionLock) wrote(record resourcelock.LeaderElectionRecord, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err != nil
	if err == nil {
		l.leading, l.renewed = record.HolderIdentity == l.Identity(), l.clock.Now()
	}
	return err
}

// overdue is how long after the end of its lease a leader still counts as healthy (HT-2). The
// elector stops leading long before.
const overdue = 20 * time.Second

// Healthy returns an error for a leader whose renewal is overdue. A standby is healthy.
func (l *ElectionLock) Healthy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if silent := l.clock.Since(l.renewed); l.leading && silent > l.lease+overdue {
		return fmt.Errorf(
			"failed election to renew leadership on lease %s: the last renewal was %s ago",
			l.Describe(),
			silent.Round(time.Second),
		)
	}
	return nil
}
