package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/intent"
)

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (j *Journal) NeedLeaderElection() bool { return true }

// Start takes the journal over and writes it until ctx ends; then it goes on until the calls under
// way are settled, at most for the time that a call may take.
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

// answer tells all waiters how their write ended. refused are claims whose entries had no room in it.
func answer(waiters []waiter, refused []types.UID, err error) {
	for _, w := range waiters {
		if err == nil && slices.Contains(refused, w.claim) {
			w.written <- intent.ErrFull
			continue
		}
		w.written <- err
	}
}

// serve writes until ctx has ended and the rest is resolved or overdue.
func (j *Journal) serve(ctx context.Context) error {
	var last time.Time
	settle := time.NewTicker(idle)
	defer settle.Stop()
	for {
		select {
		case <-ctx.Done():
			return j.drain(context.WithoutCancel(ctx))
		case <-j.wake:
			pause(ctx, window-time.Since(last))
		case <-settle.C:
		}
		last = time.Now()
		if err := j.flush(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// drain serves the calls that have begun, and then gives the journal back: the next holder need not
// wait for our calls. When they take too long, or were cut off, it is kept, and the next holder
// waits.
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
		case <-j.wake:
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

// mayGoOn reports whether the driver may still work on a call, of ours or of a previous leader.
func (j *Journal) mayGoOn() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cut || time.Now().Before(j.callsEnd)
}

// isIdle reports whether no call is under way.
func (j *Journal) isIdle() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.calling) == 0
}

// flush writes when there is something to write, when a caller waits for a write, and now and then
// when there are entries: its time tells the next leader how old these may be (H-1). Only being
// fenced is an error: any other is told to the callers that wait, and the write is made with their
// next attempt.
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
	j.book.Expire(time.Now())
	return j.book.IsDirty() || len(j.waiting) > 0 || !j.book.IsEmpty() && time.Since(j.held) > intent.Renewal
}

// keep leaves the journal with this process as its holder. The Lease may have been deleted since it
// was written, and no process would make it again.
func (j *Journal) keep(ctx context.Context) error {
	j.mu.Lock()
	isEmpty := j.book.IsEmpty()
	j.mu.Unlock()
	if isEmpty {
		return j.flush(ctx)
	}
	return j.write(ctx, j.Holder)
}

// release writes what is left and gives the journal back.
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
