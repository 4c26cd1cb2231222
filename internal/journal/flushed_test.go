package journal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// X-14, H-1: after Flushed a restart finds no entry that was resolved before. It takes one write for
// any number of callers, and none when there is nothing to remove.
func TestFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		for n := range 3 {
			record(t, j.Journal, n)
		}
		before := a.writes.Load()
		_ = j.Resolve(t.Context(), entry(0).UID)
		_ = j.Resolve(t.Context(), entry(1).UID)
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- j.Flushed(t.Context()) }()
		}
		if err := errors.Join(<-errs, <-errs); err != nil {
			t.Fatal(err)
		}
		if found := a.onRecord(t); len(found) != 1 || found[0].UID != entry(2).UID {
			t.Errorf("in the journal: %v", found)
		}
		if err := j.Flushed(t.Context()); err != nil || a.writes.Load()-before != 1 {
			t.Errorf("%d writes, want one: %v", a.writes.Load()-before, err)
		}
		j.end(t)
	})
}

// What was not written is an error, and so is a journal that another process has taken over.
func TestFlushedFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		record(t, j.Journal, 1)
		record(t, j.Journal, 2)
		_ = j.Resolve(t.Context(), entry(1).UID)
		busy := errors.New("busy")
		a.refuse.Store(&busy)
		if err := j.Flushed(t.Context()); !errors.Is(err, busy) {
			t.Errorf("not written: %v", err)
		}
		a.refuse.Store(nil)
		soon, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		time.Sleep(time.Millisecond)
		if err := j.Flushed(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no time: %v", err)
		}
		second := start(t, a, "two")
		_ = j.Resolve(t.Context(), entry(2).UID)
		if err := j.Flushed(t.Context()); !errors.Is(err, ErrFenced) {
			t.Errorf("another process has the journal: %v", err)
		}
		if err := <-j.ended; !errors.Is(err, ErrFenced) {
			t.Error(err)
		}
		second.end(t)
	})
}
