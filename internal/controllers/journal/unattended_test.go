package journal

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/names"
)

// H-1: entries that nobody has kept for long are told from others, whoever takes the record over.
// What counts is only how long nobody had it: one who has it may have an entry open for as long as
// a driver is down, and make no call for it.
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

// leaveTwo has a holder of the journal be killed with the requests 1 and 2 on record, and nobody
// come for a while.
func leaveTwo(t *testing.T, a *api, while time.Duration) {
	t.Helper()
	former := start(t, a, "former")
	for n := 1; n <= 2; n++ {
		record(t, former.Journal, n)
	}
	former.die()
	time.Sleep(while) // of virtual time
}

// H-1: what comes onto a page beside entries that nobody had kept for long is none of those,
// whoever takes the page over next, and whenever: a volume was recorded a moment ago. An entry for
// which a call has begun is none of them any more, and the others stay what they are.
func TestNewRequestsBesideOldOnes(t *testing.T) {
	const long = intent.MostUnattended + time.Minute
	for name, tc := range map[string]struct {
		held  time.Duration // by each of the holders that find old entries
		dies  bool
		gone  bool // somebody deletes the page under each of them
		pause time.Duration
	}{
		"killed at once":                   {0, true, false, 0},
		"ends":                             {time.Minute, false, false, time.Minute},
		"holds it for a week":              {7 * intent.MostUnattended, true, false, time.Hour},
		"the page is deleted":              {0, true, true, 0},
		"the page is deleted, and it ends": {time.Minute, false, true, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				leaveTwo(t, a, long)
				holder := func(who string, n int, want ...types.UID) {
					j := start(t, a, who)
					if got := intent.StaleOf(j.Entries()); !slices.Equal(got, want) {
						t.Errorf("%s: old are %v, want %v", who, got, want)
					}
					if tc.gone {
						if err := a.Delete(t.Context(), a.lease(t, "j")); err != nil {
							t.Fatal(err)
						}
					}
					record(t, j.Journal, n)
					time.Sleep(tc.held)
					if j.Done(entry(n).UID); tc.dies {
						j.die()
					} else {
						j.end(t)
					}
					time.Sleep(tc.pause)
				}
				holder("the first", 3, "uid-1", "uid-2")
				holder("the second", 4, "uid-1", "uid-2")
				holder("one that repeats a call", 1, "uid-1", "uid-2")
				holder("the next", 5, "uid-2")
				holder("one that repeats the other", 2, "uid-2")
				time.Sleep(long)
				holder("one after a day", 6, "uid-1", "uid-2", "uid-3", "uid-4", "uid-5")
			})
		})
	}
}

// Nobody writes the record for its time alone more often than it must, nor at all when nothing is
// on record.
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

// A former version knows the time of the Lease alone. It takes all of a page for old while
// something on it is, as it did before, and what it has written is believed.
func TestAFormerVersionReadsWhatIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		former := start(t, a, "former")
		record(t, former.Journal, 1)
		if page := a.lease(t, "j"); page.Spec.RenewTime == nil || page.Annotations[names.AnnIntentsKept] != "" {
			t.Errorf("without anything old: %s, %v", page.Spec.RenewTime, page.Annotations)
		}
		former.die()
		time.Sleep(intent.MostUnattended + time.Minute)
		next := start(t, a, "next")
		record(t, next.Journal, 2)
		next.die()
		page := a.lease(t, "j")
		if page.Spec.RenewTime != nil || page.Annotations[names.AnnIntentsKept] == "" {
			t.Errorf("with something old: %s, %v", page.Spec.RenewTime, page.Annotations)
		}
		time.Sleep(time.Hour)
		page.Spec.RenewTime = new(metav1.NowMicro()) // it has looked at all of it
		if err := a.Update(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		last := start(t, a, "last")
		if old := intent.StaleOf(last.Entries()); len(old) > 0 || last.Len() != 2 {
			t.Errorf("old are %v of %d", old, last.Len())
		}
		last.end(t)
		if page := a.lease(t, "j"); page.Spec.RenewTime == nil || page.Annotations[names.AnnIntentsKept] != "" {
			t.Errorf("after the former version: %s, %v", page.Spec.RenewTime, page.Annotations)
		}
	})
}

// What is old is named where the API server has room for that. Else, and where nobody can read it,
// all of the page is.
func TestWhatIsOldAndNotNamed(t *testing.T) {
	uids := []types.UID{"uid-1", "uid-2"}
	for _, tc := range []struct {
		what  string
		bytes int // of the entries
		named bool
	}{{"room", 200 << 10, true}, {"no room", mostText - 20, false}} {
		lease := &coordinationv1.Lease{}
		annotate(lease, names.AnnIntents, strings.Repeat("x", tc.bytes))
		keepNow(lease, uids)
		if got := kept(lease); slices.Equal(got.Stale, uids) != tc.named || got.Last.IsZero() == tc.named || lease.Spec.RenewTime != nil {
			t.Errorf("%s: %+v, %s", tc.what, got, lease.Spec.RenewTime)
		}
		if length := len(lease.Annotations[names.AnnIntents]) + len(lease.Annotations[names.AnnIntentsKept]); length > mostText {
			t.Errorf("%s: %d bytes", tc.what, length)
		}
		annotate(lease, names.AnnIntentsKept, "of a later version")
		if got := kept(lease); !got.Last.IsZero() {
			t.Errorf("%s: what nobody understands is read as %+v", tc.what, got)
		}
	}
}
