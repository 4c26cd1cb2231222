package journal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A repeated call begins only when the journal is still ours: by then a new holder may have undone
// what it is about.
func TestARepeatedCallNeedsTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		former := start(t, a, "former")
		record(t, former.Journal, 1)
		record(t, former.Journal, 1) // for a second call, which is recorded
		call(t, former.Journal, 1)
		former.Done("uid-1") // the outcome is not known
		time.Sleep(time.Minute)
		next := start(t, a, "next")
		record(t, former.Journal, 1) // it stands there
		if err := mayCall(t, former.Journal, "uid-1"); !errors.Is(err, ErrFenced) {
			t.Errorf("the previous holder may repeat its call: %v", err)
		}
		<-former.ended
		next.end(t)
	})
}

// A call ends before a new holder repeats it, however late it began after its record.
func TestCallsEndBeforeTheNextHolderRepeatsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		former := start(t, a, "former")
		record(t, former.Journal, 1)
		for _, late := range []time.Duration{0, fresh, fresh + time.Millisecond, time.Hour} {
			time.Sleep(late)
			until := call(t, former.Journal, 1)
			if left := time.Until(until); left < former.CallTimeout || left > former.CallTimeout+margin {
				t.Errorf("%s later: a call may take %s, want %s at least", late, left, former.CallTimeout)
			}
		}
		until := call(t, former.Journal, 1)
		next := start(t, a, "next")
		if got, _ := next.Pending("uid-1"); got.CallsEnd.Before(until) {
			t.Errorf("the next holder repeats the call at %s, and it may go on until %s", got.CallsEnd, until)
		}
		former.stop()
		<-former.ended
		next.end(t)
	})
}

// slowly is a writer whose writes take effect at once, and whose answers come late.
func slowly(d time.Duration) func(*Config) {
	return func(c *Config) { c.Writer = late{c.Writer, d} }
}

type late struct {
	client.Writer
	answers time.Duration
}

func (l late) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	err := l.Writer.Update(ctx, o, opts...)
	time.Sleep(l.answers)
	return err
}

// H-1, H-6: an API server that is slow to answer holds up no call for good, and lets none go on for
// longer than a new holder waits which has taken over right after the write. Only where a call
// would have little time left is another write awaited.
func TestCallsBeginAfterSlowWrites(t *testing.T) {
	for _, tc := range []struct {
		answers time.Duration
		begins  bool
	}{
		{fresh + 100*time.Millisecond, true}, {3 * time.Second, true}, {margin + 5*time.Second - time.Millisecond, true}, {margin + 5*time.Second + time.Millisecond, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t)
			former := start(t, a, "former", slowly(tc.answers))
			record(t, former.Journal, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begun := make(chan running, 1)
			go func() {
				time.Sleep(2 * window) // the write that is to come has had its effect
				if tc.begins {
					begun <- start(t, a, "next")
				}
			}()
			writes := a.writes.Load()
			bounded, done, err := former.Hold(ctx, "uid-1")
			if (err == nil) != tc.begins {
				t.Fatalf("%s: Hold: %v", tc.answers, err)
			}
			if err == nil {
				defer done()
				until, _ := bounded.Deadline()
				if left := time.Until(until); left < former.CallTimeout/2 || a.writes.Load()-writes > 2 {
					t.Errorf("%s: a call may take %s, after %d writes", tc.answers, left, a.writes.Load()-writes)
				}
				next := <-begun
				if got, _ := next.Pending("uid-1"); got.CallsEnd.Before(until) {
					t.Errorf("%s: the next holder repeats the call at %s, and it may go on until %s", tc.answers, got.CallsEnd, until)
				}
				next.end(t)
			}
			former.stop()
			<-former.ended
		})
	}
}

// Calls that begin soon after a write cost none, and those that do not share one.
func TestCallsShareWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		for n := range 50 {
			record(t, j.Journal, n)
		}
		before := a.writes.Load()
		hold := func() {
			held := make(chan error)
			for n := range 50 {
				go func() { held <- mayCall(t, j.Journal, entry(n).UID) }()
			}
			for range 50 {
				if err := <-held; err != nil {
					t.Error(err)
				}
			}
		}
		hold()
		if got := a.writes.Load() - before; got != 0 {
			t.Errorf("calls right after their record took %d writes", got)
		}
		time.Sleep(time.Second)
		hold()
		if got := a.writes.Load() - before; got != 1 {
			t.Errorf("50 calls a second later took %d writes", got)
		}
		if err := mayCall(t, j.Journal, "stranger"); err == nil {
			t.Error("a call may begin without a record")
		}
		for n := range 50 {
			j.Done(entry(n).UID)
		}
		j.end(t)
	})
}
