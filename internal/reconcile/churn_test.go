package reconcile

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/purser-csi/purser/internal/core/verdict"
)

// I5: what another client changes back each time is not written without end.
func TestReconcileSlowsDown(t *testing.T) {
	bound := verdict.Nothing[string]{Finding: finding(verdict.ClaimBound)}
	acts := verdict.Do[string]{Finding: finding(verdict.Provisioning), Actions: []string{"a"}, Then: bound}
	failed := verdict.Refuse[string]{Finding: finding(verdict.CreateFailed)}
	for name, tc := range map[string]struct {
		decide v
		keys   int
		slow   bool
	}{
		"acts each time":              {acts, 1, true},
		"has nothing to do":           {bound, 1, false},
		"fails, and has a delay":      {verdict.Do[string]{Finding: failed.Finding, Actions: []string{"a"}, Then: failed}, 1, false},
		"acts for two in turns":       {acts, 2, true},
		"acts for many, once or more": {acts, 2 * churnKeys, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{decide: tc.decide}
			l, _ := newLoop(s)
			clock := l.Clock.(*clocktesting.FakeClock)
			rested := 0
			l.Rests = func(string) { rested++ }
			round := func(runs int) {
				for range runs {
					for k := range tc.keys {
						if _, err := l.Reconcile(t.Context(), fmt.Sprint(k)); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			const more = churnRuns + 5
			round(more)
			if did := len(s.done); tc.slow != (did == churnRuns*tc.keys) {
				t.Errorf("acted %d times", did)
			}
			if got := testutil.ToFloat64(l.Decided.WithLabelValues("test", string(verdict.HotLoopThrottled))); (got == float64(tc.keys)) != tc.slow {
				t.Errorf("said so %v times", got)
			}
			if want := (more - churnRuns) * tc.keys; tc.slow && rested != want || !tc.slow && rested > 0 {
				t.Errorf("%d runs left out, want %d", rested, want)
			}
			if !tc.slow {
				return
			}
			clock.Step(churnTime - time.Second)
			if result, err := l.Reconcile(t.Context(), "0"); err != nil || result.RequeueAfter != time.Second {
				t.Errorf("left alone for %s, %v", result.RequeueAfter, err)
			}
			clock.Step(time.Second)
			round(1)
			if did := len(s.done); did != (churnRuns+1)*tc.keys {
				t.Errorf("acted %d times, and then no more", did)
			}
		})
	}
}
