package journal

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/names"
)

// page is a Lease as an older version wrote it.
func (a *api) page(t *testing.T, name, pages, kept string, entries ...intent.Entry) {
	t.Helper()
	text, err := intent.Encode(entries)
	if err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{names.AnnIntents: text}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("older"), LeaseDurationSeconds: new(int32(10)), RenewTime: new(metav1.NowMicro())},
	}
	if pages != "" {
		lease.Annotations[names.AnnIntentPages] = pages
	}
	if kept != "" {
		lease.Annotations[names.AnnIntentsKept], lease.Spec.RenewTime = kept, nil
	}
	if err := a.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}

// H-1: the pages of an older version are read once and folded into the one Lease; no entry is lost,
// also when the first leader of this version dies in between.
func TestPagesOfAnOlderVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.page(t, "j", "3", "", entry(1), entry(2))
		a.page(t, "j-1", "", "", entry(3))
		a.page(t, "j-2", "", "", entry(4))
		takenOver := 0
		refuse := error(apierrors.NewInternalError(context.DeadlineExceeded))
		reading := func(name string) { // it dies before it has folded the pages in
			if takenOver++; name == "j-2" {
				a.refuse.Store(&refuse)
			}
		}
		a.reading.Store(&reading)
		first := start(t, a, "first")
		a.reading.Store(nil)
		first.die()
		a.refuse.Store(nil)
		next := start(t, a, "next")
		if next.Len() != 4 {
			t.Errorf("found %d entries of 4", next.Len())
		}
		if got, _ := next.Pending("uid-4"); !got.CallsEnd.After(time.Now().Add(9 * time.Second)) {
			t.Errorf("the calls of the older version end at %s", got.CallsEnd)
		}
		if got := a.onRecord(t); len(got) != 4 || a.lease(t, "j").Annotations[names.AnnIntentPages] != "" {
			t.Errorf("in the Lease: %v", got)
		}
		for _, name := range []string{"j-1", "j-2"} {
			err := a.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &coordinationv1.Lease{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("page %s is left: %v", name, err)
			}
		}
		next.die()
		if last := start(t, a, "last"); last.Len() != 4 {
			t.Errorf("the one after it found %d entries of 4", last.Len())
		} else {
			last.end(t)
		}
	})
}

// An older version that left more than the Lease can hold must resolve it first.
func TestPagesThatDoNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.page(t, "j", "2", "", noisy(1, 200<<10))
		a.page(t, "j-1", "", "", noisy(2, 200<<10))
		j := start(t, a, "one")
		if err := <-j.ended; err == nil || !strings.Contains(err.Error(), "older version") {
			t.Errorf("Start: %v", err)
		}
		if n := a.lease(t, "j").Annotations[names.AnnIntentPages]; n != "2" {
			t.Errorf("the pages are named %q", n)
		}
	})
}

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

// A Lease without a time was written by another program: all of it is stale. Where an older version
// named the stale entries, the others are not.
func TestStalenessThatAnOlderVersionNoted(t *testing.T) {
	recently := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339Nano)
	for name, tc := range map[string]struct {
		kept string
		want int
	}{
		"no note":          {" ", 0},
		"not understood":   {"of a later version", 0},
		"one is stale":     {recently + " uid-1", 1},
		"none is":          {recently, 2},
		"all are: a month": {time.Now().Add(-30 * intent.MaxUnrenewed).UTC().Format(time.RFC3339Nano), 0},
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnIntentsKept: tc.kept}}}
		isStale, fresh := staleness(lease, time.Now()), 0
		for _, e := range []intent.Entry{entry(1), entry(2)} {
			if !isStale(e) {
				fresh++
			}
		}
		if fresh != tc.want {
			t.Errorf("%s: %d entries are not stale, want %d", name, fresh, tc.want)
		}
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
