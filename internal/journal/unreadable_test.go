package journal

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
)

// emitted collects the reasons of events.
type emitted struct{ reasons []string }

func (h *emitted) Event(_ runtime.Object, _, reason, _ string) { h.reasons = append(h.reasons, reason) }

// damaged creates a Lease with these annotations, whose holder is gone.
func (a *api) damaged(t *testing.T, name string, annotations map[string]string) {
	t.Helper()
	if err := a.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: annotations},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("former"), LeaseDurationSeconds: new(int32(10)), RenewTime: new(metav1.NowMicro())},
	}); err != nil {
		t.Fatal(err)
	}
}

// A journal that cannot be read stops the start, with the Lease, the command and the flag in the
// error. With the flag its text is kept aside in the write that takes the Lease over.
func TestUnreadableJournal(t *testing.T) {
	for name, tc := range map[string]struct{ given, want map[string]string }{
		"entries": {map[string]string{names.AnnIntents: "v9:future"}, map[string]string{names.AnnIntentsUnreadable: "v9:future"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				a.damaged(t, "j", tc.given)
				events := &emitted{}
				j := start(t, a, "one", func(c *Config) { c.Events = events })
				err := <-j.ended
				if !errors.Is(err, ErrUnreadable) {
					t.Fatalf("Start: %v", err)
				}
				for _, part := range []string{"lease ns/j", "kubectl -n ns get lease j -o yaml", intent.FlagSkipUnreadable, intent.SkipRisk} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q is not in %v", part, err)
					}
				}
				if got := a.lease(t, "j").Annotations; !maps.Equal(got, tc.given) {
					t.Errorf("the Lease was changed: %v", got)
				}
				writes := a.writes.Load()
				next := start(t, a, "two", func(c *Config) { c.Events, c.SkipUnreadable = events, true })
				got := a.lease(t, "j").Annotations
				for name, text := range tc.want {
					if got[name] != text {
						t.Errorf("%s is %q, want %q", name, got[name], text)
					}
				}
				if got[names.AnnIntents] != "" || a.writes.Load() != writes+1 {
					t.Errorf("after %d writes: %v", a.writes.Load()-writes, got)
				}
				if want := []string{"JournalUnreadable", "JournalSkipped"}; !slices.Equal(events.reasons, want) {
					t.Errorf("events %v, want %v", events.reasons, want)
				}
				time.Sleep(time.Minute)
				if next.Size() != len(tc.want[names.AnnIntentsUnreadable]) {
					t.Errorf("%d bytes: the text takes no room", next.Size())
				}
				record(t, next.Journal, 1)
				if len(a.onRecord(t)) != 1 {
					t.Errorf("recorded %v", a.onRecord(t))
				}
				next.end(t)
				after := start(t, a, "three")
				if got := a.lease(t, "j").Annotations[names.AnnIntentsUnreadable]; got != tc.want[names.AnnIntentsUnreadable] || after.Len() != 1 {
					t.Errorf("after another start: %q and %d requests", got, after.Len())
				}
				after.end(t)
			})
		})
	}
}

// No entry says which volumes the calls of the previous leader may create, so the journal opens only
// when they must have ended.
func TestSkippedCallsAreAwaited(t *testing.T) {
	for name, tc := range map[string]struct {
		ended bool
		waits bool
	}{"may go on": {false, true}, "have ended": {true, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				a.damaged(t, "j", map[string]string{names.AnnIntents: "v9:future"})
				j := start(t, a, "one", func(c *Config) { c.SkipUnreadable, c.PreviousCallsEnded = true, tc.ended })
				began := time.Now()
				<-j.Opened()
				if waited := time.Since(began) >= 10*time.Second; waited != tc.waits {
					t.Errorf("waited %s", time.Since(began))
				}
				j.end(t)
			})
		})
	}
}

// A text that has no room beside the journal is neither truncated nor lost.
func TestUnreadableJournalTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		text := strings.Repeat("x", intent.MaxText)
		a.damaged(t, "j", map[string]string{names.AnnIntents: text})
		j := start(t, a, "one", func(c *Config) { c.SkipUnreadable = true })
		if err := <-j.ended; !errors.Is(err, ErrUnreadable) || !errors.Is(err, intent.ErrNoRoom) || !strings.Contains(err.Error(), "annotate lease j "+names.AnnIntents+"-") {
			t.Errorf("Start: %.300v", err)
		}
		if a.lease(t, "j").Annotations[names.AnnIntents] != text {
			t.Error("the text was changed")
		}
	})
}
