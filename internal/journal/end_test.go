package journal

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// An orderly end leaves no call to wait for, and keeps unresolved entries.
func TestReleaseLeavesNothingToWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		record(t, j.Journal, 1)
		record(t, j.Journal, 2)
		record(t, j.Journal, 3)
		record(t, j.Journal, 4)
		call(t, j.Journal, 1)
		call(t, j.Journal, 2)
		call(t, j.Journal, 4)
		j.Done("uid-1")
		if err := j.Resolve(t.Context(), "uid-2"); err != nil {
			t.Fatal(err)
		}
		j.stop()
		synctest.Wait()
		select {
		case <-j.ended:
			t.Fatal("ended while a call was under way")
		default:
		}
		if err := mayCall(t, j.Journal, "uid-3"); !errors.Is(err, errEnding) {
			t.Errorf("a call may begin while the process ends: %v", err)
		}
		if err := mayCall(t, j.Journal, "uid-4"); err != nil {
			t.Errorf("what a run has made it may not delete: %v", err)
		}
		if err := j.Discard(t.Context(), "uid-4", "h"); err != nil {
			t.Errorf("the handle of what a run deletes is not recorded: %v", err)
		}
		if err := j.Discard(t.Context(), "uid-3", "h"); !errors.Is(err, errEnding) {
			t.Errorf("a deletion may begin while the process ends: %v", err)
		}
		if err := j.Resolve(t.Context(), "uid-4"); err != nil {
			t.Fatal(err)
		}
		j.Done("uid-4")
		j.Done("uid-2")
		j.end(t)
		next := start(t, a, "next")
		got, ok := next.Pending("uid-1")
		if !ok || !got.CallsEnd.IsZero() {
			t.Errorf("got %+v, %v; want the unsettled entry at once", got, ok)
		}
		if _, ok := next.Pending("uid-2"); ok {
			t.Error("a resolved entry came back")
		}
		if got, ok := next.Pending("uid-3"); !ok || !got.CallsEnd.IsZero() {
			t.Errorf("got %+v, %v; want the entry that nothing was called for, at once", got, ok)
		}
		next.end(t)
	})
}

// A run that does not end, and a call that is cut off when the process ends and may go on in the
// driver, keep the journal, so that the next holder waits.
func TestCallsThatMayGoOnKeepTheJournal(t *testing.T) {
	for name, atEnd := range map[string]func(running){
		"overdue": func(running) {},
		"cut off": func(j running) { j.Done("uid-1") }, // nothing is known of the outcome
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				j := start(t, a, "one")
				record(t, j.Journal, 1)
				call(t, j.Journal, 1)
				j.stop()
				synctest.Wait()
				atEnd(j)
				j.end(t)
				if holder := *a.lease(t, "j").Spec.HolderIdentity; holder != "one" {
					t.Errorf("given back to %q while a call may go on", holder)
				}
			})
		})
	}
}

// An administrator deletes the journal while it has entries that are not repeated any more: a
// process that ends must not leave without it (H-1).
func TestEndKeepsUnresolvedEntries(t *testing.T) {
	for name, tc := range map[string]struct {
		cut    bool // a call may go on, so that the journal is kept
		holder string
	}{
		"given back": {false, ""},
		"kept":       {true, "one"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				j := start(t, a, "one")
				for n := range 7 {
					record(t, j.Journal, n)
				}
				call(t, j.Journal, 1)
				if !tc.cut {
					j.Done("uid-1")
				}
				if err := a.Delete(t.Context(), a.lease(t, "j")); err != nil {
					t.Fatal(err)
				}
				j.stop()
				synctest.Wait()
				if tc.cut {
					j.Done("uid-1")
				}
				j.end(t)
				if holder := *a.lease(t, "j").Spec.HolderIdentity; holder != tc.holder {
					t.Errorf("it is held by %q", holder)
				}
				next := start(t, a, "next")
				if n := next.Len(); n != 7 {
					t.Errorf("the next one found %d requests of 7", n)
				}
				next.end(t)
			})
		})
	}
}

// Who takes the journal over and ends, or dies, before the calls of its previous holder must have
// ended leaves the wait to the next one, also when the previous's calls may take longer than its own.
func TestWaitForAPreviousHolderIsHandedOn(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout, stays time.Duration // of the one in between
		dies           bool
	}{
		"ends":               {10 * time.Second, time.Second, false},
		"ends, shorter":      {time.Second, time.Second, false},
		"ends, after it all": {time.Second, 20 * time.Second, false},
		"dies":               {10 * time.Second, time.Second, true},
		"dies, shorter":      {time.Second, time.Second, true},
		"dies at once":       {time.Second, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				former := start(t, a, "former")
				record(t, former.Journal, 1)
				until := call(t, former.Journal, 1)
				between := start(t, a, "between", func(c *Config) { c.CallTimeout = tc.timeout })
				if tc.stays > 0 {
					time.Sleep(tc.stays)
					record(t, between.Journal, 2) // which writes the page once more
				}
				if !tc.dies {
					between.end(t)
				}
				next := start(t, a, "next", func(c *Config) { c.CallTimeout = tc.timeout })
				if got, ok := next.Pending("uid-1"); !ok || time.Now().Before(until) && got.CallsEnd.Before(until) {
					t.Errorf("%+v, %t: a call of the first holder may go on until %s", got, ok, until)
				}
				if holder := *a.lease(t, "j").Spec.LeaseDurationSeconds; tc.stays > 10*time.Second && holder != 1 {
					t.Errorf("those who come wait for %d seconds, though all calls have ended", holder)
				}
				former.stop()
				between.stop()
				next.end(t)
				<-former.ended
			})
		})
	}
}
