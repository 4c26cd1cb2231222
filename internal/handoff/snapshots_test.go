package handoff

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

var (
	first  = types.NamespacedName{Namespace: "n", Name: "first"}
	second = types.NamespacedName{Namespace: "n", Name: "second"}
	source = SourceClaim{types.NamespacedName{Namespace: "n", Name: "claim"}, "c"}
)

// FL-18: a claim is held, and then its finalizer stays, or its finalizer goes, and then it cannot be held.
func TestHold(t *testing.T) {
	s := NewSnapshots(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	if s.Hold(first, "1", source) {
		t.Error("held, and the protection does not lead here")
	}
	s.setLeading(true)
	var told []SourceClaim
	s.OnRelease(func(claim SourceClaim) { told = append(told, claim) })
	if !s.Hold(first, "1", source) || !s.Hold(second, "2", source) || s.LetGo("c") {
		t.Error("not held")
	}
	if !s.IsHeld(first, "1") || s.IsHeld(first, "other") || len(s.Holders("c")) != 2 {
		t.Errorf("held for %v", s.Holders("c"))
	}
	s.Release(first)
	s.Release(first)
	if s.LetGo("c") || len(told) != 1 {
		t.Errorf("released with one of two holders, told %v", told)
	}
	s.Release(second)
	if !s.LetGo("c") || s.Hold(first, "1", source) {
		t.Error("held after it was released")
	}
	if s.ClaimGone("c"); !s.Hold(first, "1", source) {
		t.Error("the memory of a claim that is gone")
	}
	var none *Snapshots
	if none.IsHeld(first, "1") || !none.LetGo("c") || none.IsDeleting("x") || none.Restores() != nil {
		t.Error("a process alone")
	}
}

// At the end each held claim gets its finalizer once, and none can be held any more.
func TestEndOfTheProtection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSnapshots(clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		var got []SourceClaim
		ended := make(chan error, 1)
		go func() {
			ended <- ClaimProtection{Snapshots: s, Bound: time.Second, Protect: func(ctx context.Context, claim SourceClaim) error {
				got = append(got, claim)
				return ctx.Err()
			}}.Start(ctx)
		}()
		synctest.Wait()
		time.Sleep(time.Minute)
		if since, ok := s.Protects(); !ok || since != time.Minute {
			t.Errorf("leads for %s, %v", since, ok)
		}
		s.Hold(first, "1", source)
		s.Hold(second, "2", source)
		cancel()
		if err := <-ended; err != nil || len(got) != 1 || got[0] != source {
			t.Errorf("%v, %v", got, err)
		}
		if s.IsHeld(first, "1") || s.Hold(first, "1", source) {
			t.Error("held after the end")
		}
	})
}

// A failure of one claim does not keep the others from their finalizers.
func TestEndOfTheProtectionFails(t *testing.T) {
	s := NewSnapshots(clock.RealClock{})
	s.setLeading(true)
	s.Hold(first, "1", source)
	s.Hold(second, "2", SourceClaim{second, "d"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	failure, calls := errors.New("busy"), 0
	err := ClaimProtection{Snapshots: s, Bound: time.Second, Protect: func(context.Context, SourceClaim) error {
		calls++
		return failure
	}}.Start(ctx)
	if !errors.Is(err, failure) || calls != 2 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
