package journal

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	intent "github.com/purser-csi/purser/internal/journal/rules"
)

// exist is a cluster with some of the claims.
func exist(uids ...string) func(*Config) {
	return func(c *Config) {
		c.ClaimExists = func(_ context.Context, e intent.Entry) (bool, error) {
			if slices.Contains(uids, string(e.UID)) {
				return true, nil
			}
			return false, nil
		}
	}
}

// H-1: entries of a journal that was not renewed for a day are stale. Those whose claim is gone are
// dropped at the takeover, for every leader to come.
func TestStaleEntriesAreDroppedAtTheTakeover(t *testing.T) {
	const week = 7 * intent.MaxUnrenewed
	for name, tc := range map[string]struct {
		held, gap time.Duration
		dies      bool // the previous leader does not give the journal back
		stale     bool
	}{
		"a restart":                      {0, time.Minute, false, false},
		"a crash":                        {0, time.Minute, true, false},
		"held for a week, a crash":       {week, time.Minute, true, false},
		"an evening without a process":   {week, intent.MaxUnrenewed - intent.Renewal - time.Minute, true, false},
		"a day and more, given back":     {week, intent.MaxUnrenewed + time.Minute, false, true},
		"a day and more, after a crash":  {0, intent.MaxUnrenewed + time.Minute, true, true},
		"weeks with another provisioner": {0, 3 * week, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				previous := start(t, a, "previous")
				record(t, previous.Journal, 1)
				record(t, previous.Journal, 2)
				time.Sleep(tc.held)
				if tc.dies {
					previous.die()
				} else {
					previous.end(t)
				}
				time.Sleep(tc.gap)
				want := 2
				if tc.stale {
					want = 1
				}
				for _, holder := range []string{"next", "the one after it"} {
					next := start(t, a, holder, exist("uid-2"))
					if _, ok := next.Pending("uid-2"); !ok || next.Len() != want {
						t.Errorf("%s: %d entries, want %d; the live claim has its entry: %t", holder, next.Len(), want, ok)
					}
					next.die()
				}
			})
		})
	}
}

// A journal with entries is renewed no more often than it must, and an empty one not at all.
func TestRenewalCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		record(t, j.Journal, 1)
		before := a.writes.Load()
		time.Sleep(24*intent.Renewal + 12*idle)
		if got := a.writes.Load() - before; got < 23 || got > 24 {
			t.Errorf("%d writes in 24 times %s", got, intent.Renewal)
		}
		if err := j.Resolve(t.Context(), "uid-1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * idle)
		before = a.writes.Load()
		time.Sleep(24 * intent.Renewal)
		if got := a.writes.Load() - before; got != 0 {
			t.Errorf("%d writes of an empty journal", got)
		}
		j.end(t)
	})
}
