package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	intent "github.com/purser-csi/purser/internal/journal/rules"
)

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (j *Journal) NeedLeaderElection() bool { return true }

// Start takes the journal over and writes it until ctx ends. Then it continues until the calls in
// flight are resolved, at most for the timeout of a call.
func (j *Journal) Start(ctx context.Context) error {
	err := j.open(ctx)
	if err == nil {
		close(j.opened)
		err = j.serve(ctx)
	}
	if err != nil {
		err = fmt.Errorf("journal of volume requests: %w", err)
		j.end(err)
		return err
	}
	j.end(errEnding)
	return nil
}

func (j *Journal) end(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = err
	answer(j.waiting, nil, err)
	j.waiting = nil
}

// answer sends the waiters the result of their write. refused are claims whose entries had no room.
func answer(waiters []waiter, refused []types.UID, err error) {
	for _, w := range waiters {
		if err == nil && slices.Contains(refused, w.claim) {
			w.written <- intent.ErrFull
			continue
		}
		w.written <- err
	}
}

// serve writes until ctx has ended and the calls in flight are resolved or have timed out.
func (j *Journal) serve(ctx context.Context) error {
	var last time.Time
	tick := time.NewTicker(idle)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return j.drain(context.WithoutCancel(ctx))
		case <-j.writeDue:
			pause(ctx, window-j.Now().Sub(last))
		case <-tick.C:
		}
		last = j.Now()
		if err := j.flush(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// drain serves the calls in flight and then releases the Lease, so that the next holder need not
// wait for them. If a call takes too long or was cut off, the Lease keeps its holder, and the next
// one waits.
func (j *Journal) drain(ctx context.Context) error {
	j.mu.Lock()
	j.ending = true
	j.mu.Unlock()
	bound := time.NewTimer(j.CallTimeout + margin)
	defer bound.Stop()
	check := time.NewTicker(window)
	defer check.Stop()
	for !j.isIdle() {
		select {
		case <-bound.C:
			return j.keep(ctx)
		case <-check.C:
			continue
		case <-j.writeDue:
		}
		if err := j.flush(ctx); err != nil {
			return err
		}
	}
	if j.mayGoOn() {
		return j.keep(ctx)
	}
	return j.release(ctx)
}

// mayGoOn reports whether the driver may still work on a call, of this process or a previous
// leader.
func (j *Journal) mayGoOn() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cut || j.Now().Before(j.callsEnd)
}

// isIdle reports whether no call is in flight.
func (j *Journal) isIdle() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.calling) == 0
}

// flush writes if the entries have changed or a caller waits. It also renews the Lease from time to
// time while there are entries, so that the next leader sees how old they are (H-1). Only being
// fenced is returned as an error; the waiters get any other error, and the next write tries again.
func (j *Journal) flush(ctx context.Context) error {
	if !j.isDue() {
		return nil
	}
	err := j.write(ctx, j.Holder)
	if err == nil || errors.Is(err, ErrFenced) {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("the journal of volume requests was not written", "problem", err.Error())
	return nil
}

func (j *Journal) isDue() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.memory {
		return false
	}
	j.book.Expire(j.Now())
	return j.book.IsDirty() || len(j.waiting) > 0 || !j.book.IsEmpty() && j.Now().Sub(j.held) > intent.Renewal
}

// keep leaves this process as the holder of the Lease. It writes even if nothing changed, since the
// Lease may have been deleted and no other process would create it.
func (j *Journal) keep(ctx context.Context) error {
	j.mu.Lock()
	isEmpty := j.book.IsEmpty()
	j.mu.Unlock()
	if isEmpty {
		return j.flush(ctx)
	}
	return j.write(ctx, j.Holder)
}

// release writes the remaining entries and gives the Lease up.
func (j *Journal) release(ctx context.Context) error {
	if j.memory {
		return nil
	}
	if err := j.write(ctx, ""); !errors.Is(err, ErrFenced) {
		return err
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
