package journal

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
)

// H-1: when Record returns, a restart finds the entry; until the entry is resolved.
func TestRecordIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		record(t, j.Journal, 1)
		if got := a.onRecord(t); len(got) != 1 || got[0].UID != "uid-1" {
			t.Errorf("in the journal: %v", got)
		}
		record(t, j.Journal, 1) // for a second call, which is recorded
		writes := a.writes.Load()
		record(t, j.Journal, 1)
		if a.writes.Load() != writes {
			t.Error("the same entry was written for a third call")
		}
		if err := j.Resolve(t.Context(), "uid-1"); err != nil {
			t.Fatal(err)
		}
		if _, pending := j.Pending("uid-1"); pending {
			t.Error("a resolved entry is pending")
		}
		time.Sleep(2 * idle)
		if got := a.onRecord(t); len(got) != 0 {
			t.Errorf("a settlement that no other write carries is written when idle, got %v", got)
		}
		j.Done("uid-1")
		j.end(t)
	})
}

// The budget: one write carries everything of a window.
func TestRecordsShareWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		record(t, j.Journal, 0)
		before := a.writes.Load()
		recorded := make(chan error)
		for n := 1; n <= 50; n++ {
			go func() { recorded <- j.Record(t.Context(), entry(n)) }()
		}
		for range 50 {
			if err := <-recorded; err != nil {
				t.Fatal(err)
			}
		}
		if got := a.writes.Load() - before; got > 2 {
			t.Errorf("50 records took %d writes", got)
		}
		for n := range 51 {
			j.Done(entry(n).UID)
		}
		j.end(t)
	})
}

// The budget: a burst of 1,000 claims, as many at once as the provisioner works on by default,
// takes at most 0.4 writes a claim, each call included.
func TestBurstSharesWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one", func(c *Config) { c.Writer = late{c.Writer, 5 * time.Millisecond} })
		const claims, runs = 1000, 200
		before, next := a.writes.Load(), atomic.Int32{}
		var all sync.WaitGroup
		for range runs {
			all.Go(func() {
				for n := int(next.Add(1)); n <= claims; n = int(next.Add(1)) {
					if err := j.Record(t.Context(), entry(n)); err != nil {
						t.Error(err)
					}
					if err := mayCall(t, j.Journal, entry(n).UID); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(20+n%7) * time.Millisecond) // the driver, and the PersistentVolume
					_ = j.Resolve(t.Context(), entry(n).UID)
					j.Done(entry(n).UID)
				}
			})
		}
		all.Wait()
		if got := float64(a.writes.Load()-before) / claims; got > 0.4 {
			t.Errorf("%.2f writes a claim", got)
		} else {
			t.Logf("%.3f writes a claim", got)
		}
		j.end(t)
	})
}

// H-1, H-14: when Discard returns, the journal says that the volume is being deleted, and the next
// leader reads it.
func TestDiscardIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		former := start(t, a, "former")
		record(t, former.Journal, 1)
		record(t, former.Journal, 2)
		for _, claim := range []types.UID{"uid-1", "uid-3"} { // the second has no entry
			if err := former.Discard(t.Context(), claim, "h"); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.onRecord(t); len(got) != 2 || !got[0].Discarding || got[0].Known.Handle != "h" || got[1].Discarding {
			t.Errorf("in the journal: %+v", got)
		}
		next := start(t, a, "next")
		if got, ok := next.Pending("uid-1"); !ok || !got.Discarding || got.Known.Handle != "h" {
			t.Errorf("the next leader has %+v, %v", got, ok)
		}
		if err := former.Discard(t.Context(), "uid-2", "h"); !errors.Is(err, ErrFenced) {
			t.Errorf("the previous leader: %v", err)
		}
		next.end(t)
	})
}

// H-14: a handle that is only noted is written without another reason to write.
func TestNotedHandleIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "leader")
		record(t, j.Journal, 1)
		j.Note("uid-1", intent.Known{Handle: "h"})
		time.Sleep(time.Second)
		if got := a.onRecord(t); len(got) != 1 || got[0].Known.Handle != "h" {
			t.Errorf("in the journal: %+v", got)
		}
		before := a.writes.Load()
		j.Note("uid-1", intent.Known{Handle: "h"})
		time.Sleep(time.Second)
		if n := a.writes.Load() - before; n > 0 {
			t.Errorf("the same handle again costs %d writes", n)
		}
		j.end(t)
	})
}

// A new leader takes the journal over, and the previous one begins no further call.
func TestTakeOverFencesThePreviousHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		former := start(t, a, "former")
		record(t, former.Journal, 1)
		taken := time.Now()
		next := start(t, a, "next")
		got, ok := next.Pending("uid-1")
		if !ok || got.CallsEnd.Before(taken.Add(10*time.Second)) {
			t.Errorf("entry of the previous holder: %+v, %v; its calls may take 10s", got, ok)
		}
		if err := former.Record(t.Context(), entry(2)); !errors.Is(err, ErrFenced) {
			t.Errorf("the previous holder recorded: %v", err)
		}
		if err := <-former.ended; !errors.Is(err, ErrFenced) {
			t.Errorf("the previous holder goes on: %v", err)
		}
		if err := former.Record(t.Context(), entry(3)); !errors.Is(err, ErrFenced) {
			t.Errorf("after its end it recorded: %v", err)
		}
		if got := a.onRecord(t); len(got) != 1 {
			t.Errorf("in the journal: %v", got)
		}
		next.end(t)
	})
}

func TestPreviousCallsEndedNeedsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		former := start(t, a, "former")
		record(t, former.Journal, 1)
		next := start(t, a, "next", func(c *Config) { c.PreviousCallsEnded = true })
		if got, _ := next.Pending("uid-1"); !got.CallsEnd.IsZero() {
			t.Errorf("waits until %s", got.CallsEnd)
		}
		former.stop()
		next.end(t)
		<-former.ended
	})
}

// A failed write returns its error to the waiting callers, and the next write contains their entries.
func TestFailedWriteIsReportedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		refused := error(apierrors.NewInternalError(errors.New("no")))
		a.refuse.Store(&refused)
		if err := j.Record(t.Context(), entry(1)); err == nil {
			t.Fatal("recorded what was not written")
		}
		a.refuse.Store(nil)
		record(t, j.Journal, 1)
		if got := a.onRecord(t); len(got) != 1 {
			t.Errorf("in the journal: %v", got)
		}
		j.Done("uid-1")
		j.end(t)
	})
}

// The Lease may be edited or deleted; only another holder stops us.
func TestForeignChangesAreOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		record(t, j.Journal, 1)
		touched := a.lease(t, "j")
		touched.Labels = map[string]string{"by": "an administrator"}
		if err := a.Update(t.Context(), touched); err != nil {
			t.Fatal(err)
		}
		record(t, j.Journal, 2)
		if got := a.onRecord(t); len(got) != 2 {
			t.Errorf("after a foreign change: %v", got)
		}
		if err := a.Delete(t.Context(), a.lease(t, "j")); err != nil {
			t.Fatal(err)
		}
		record(t, j.Journal, 3)
		if got := a.onRecord(t); len(got) != 3 {
			t.Errorf("after a deletion: %v", got)
		}
		for n := range 4 {
			j.Done(entry(n).UID)
		}
		j.end(t)
	})
}

func TestWithoutPermission(t *testing.T) {
	forbidden := error(apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "j", errors.New("no")))
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.refuse.Store(&forbidden)
		j := start(t, a, "one", func(c *Config) { c.Needed = BestEffort })
		record(t, j.Journal, 1)
		if _, ok := j.Pending("uid-1"); !ok {
			t.Error("not even remembered in memory")
		}
		j.Done("uid-1")
		j.end(t)
	})
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.refuse.Store(&forbidden)
		j := start(t, a, "one", func(c *Config) { c.Needed = Required })
		if err := <-j.ended; !apierrors.IsForbidden(err) {
			t.Errorf("Start: %v", err)
		}
		if err := j.Record(t.Context(), entry(1)); err == nil {
			t.Error("recorded without a record")
		}
		j.stop()
	})
}

// A record that this version cannot read is never overwritten.
func TestUnknownJournalVersionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		j.end(t)
		lease := a.lease(t, "j")
		lease.Annotations = map[string]string{names.AnnIntents: "v9:future"}
		if err := a.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		next := start(t, a, "next")
		if err := <-next.ended; err == nil {
			t.Error("took over what it cannot read")
		}
		if got := a.lease(t, "j").Annotations[names.AnnIntents]; got != "v9:future" {
			t.Errorf("overwritten with %q", got)
		}
		next.stop()
	})
}
