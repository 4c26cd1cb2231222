package journal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/purser-csi/purser/internal/core/intent"
)

// H-1: entries that nobody has kept for long are told from others, whoever takes the record over. What counts is only how long nobody had it:
// one who has it may have an entry open for as long as a driver is down, and make no call for it.
func TestWhatNobodyHasKept(t *testing.T) {
	const week = 7 * intent.MostUnattended
	for name, tc := range map[string]struct {
		held, gap time.Duration
		dies      bool // the former holder does not give it back
		stale     bool
	}{
		"a restart":                      {0, time.Minute, false, false},
		"a crash":                        {0, time.Minute, true, false},
		"held for a week, a restart":     {week, time.Minute, false, false},
		"held for a week, a crash":       {week, time.Minute, true, false},
		"an evening without a process":   {week, intent.MostUnattended - intent.Renewal - time.Minute, true, false},
		"a day and more, given back":     {week, intent.MostUnattended + time.Minute, false, true},
		"a day and more, after a crash":  {0, intent.MostUnattended + time.Minute, true, true},
		"weeks with another provisioner": {0, 3 * week, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				former := start(t, a, "former")
				for n := range 8 { // on two pages
					if err := former.Record(t.Context(), big(n)); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(tc.held)
				if tc.dies {
					former.die()
				} else {
					former.end(t)
				}
				time.Sleep(tc.gap)
				for _, holder := range []string{"next", "one that is busy", "one more"} { // none of them has time to look at what it finds
					next := start(t, a, holder)
					for _, e := range next.Entries() {
						if e.IsStale() != tc.stale {
							t.Errorf("%s: request %s, which nobody has kept for %s, is stale: %t", holder, e.VolumeName, e.Unattended, e.IsStale())
						}
					}
					if n := next.Len(); n != 8 {
						t.Errorf("%s: %d requests on record", holder, n)
					}
					if holder == "one that is busy" {
						record(t, next.Journal, 20)
						if err := next.Settle(t.Context(), "uid-20"); err != nil {
							t.Fatal(err)
						}
						next.end(t)
					} else {
						next.die()
					}
				}
				last := start(t, a, "last")
				if err := last.Settle(t.Context(), "uid-0"); err != nil {
					t.Fatal(err)
				}
				for n := range 6 { // the first page is looked at: one is settled, calls for the others begin
					if err := last.Record(t.Context(), big(n)); err != nil {
						t.Fatal(err)
					}
				}
				last.die()
				afterwards := start(t, a, "afterwards")
				for n := range 8 {
					if e, ok := afterwards.Pending(big(n).UID); !ok || e.IsStale() != (tc.stale && n > 5) {
						t.Errorf("request %d after it was looked at: on record %t, stale %t", n, ok, e.IsStale())
					}
				}
				afterwards.end(t)
			})
		})
	}
}

// Nobody writes the record for its time alone more often than it must, nor at all when nothing is on record.
func TestKeepingTheRecordCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		record(t, j.Journal, 1)
		before := a.writes.Load()
		time.Sleep(24*intent.Renewal + 12*idle)
		if got := a.writes.Load() - before; got < 23 || got > 24 {
			t.Errorf("%d writes in 24 times %s", got, intent.Renewal)
		}
		if err := j.Settle(t.Context(), "uid-1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * idle)
		before = a.writes.Load()
		time.Sleep(24 * intent.Renewal)
		if got := a.writes.Load() - before; got != 0 {
			t.Errorf("%d writes of an empty record", got)
		}
		j.end(t)
	})
}

// A page without a time was written by somebody else, and nobody knows when.
func TestAPageWithoutATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		former := start(t, a, "former")
		record(t, former.Journal, 1)
		former.end(t)
		page := a.lease(t, "j")
		page.Spec.RenewTime = nil
		if err := a.Update(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		next := start(t, a, "next")
		if e, _ := next.Pending("uid-1"); !e.IsStale() {
			t.Errorf("unattended for %s", e.Unattended)
		}
		next.end(t)
	})
}
