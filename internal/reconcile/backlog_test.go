package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/purser-csi/purser/internal/verdict"
)

// objects is a task with one write for each key. Keys with the prefix "old" are older than the
// process, those with the prefix "urgent" have actions that are not deferrable.
type objects struct {
	clock   *clocktesting.FakeClock
	created time.Time // of old objects
	gone    bool
	written map[string]time.Time
}

func (o *objects) Gather(_ context.Context, key string) (string, error) { return key, nil }

func (o *objects) Decide(key string, _ time.Time) v {
	done := verdict.Nothing[string]{Finding: finding(verdict.ClaimUseTracked)}
	if _, written := o.written[key]; written || o.gone {
		return done
	}
	urgent := key[0] == 'u'
	return verdict.Do[string]{Finding: done.Finding, Actions: []string{key}, Then: done, Deferrable: !urgent}
}

func (o *objects) Apply(_ context.Context, key, _ string) (v, error) {
	o.written[key] = o.clock.Now()
	return nil, nil
}

func (o *objects) About(key, _ string) About {
	if key[0] == 'n' {
		return About{Created: o.clock.Now()}
	}
	return About{Created: o.created}
}

// storm is a controller at its start, with a queue under virtual time.
type storm struct {
	objects
	loop *Loop[string, string, string]
	due  map[string]time.Time // the queue
}

func newStorm(backlog *Backlog) *storm {
	start := time.Unix(1000, 0)
	s := &storm{due: map[string]time.Time{}, objects: objects{
		clock: clocktesting.NewFakeClock(start), created: start.Add(-time.Hour), written: map[string]time.Time{},
	}}
	s.loop = New(Config[string, string, string]{
		Name: "test", Task: &s.objects, Retries: NewRetries[string](), Bound: time.Minute, Settings: Settings{
			Clock: s.clock, Events: &events{}, Backlog: backlog,
			Decided: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "d"}, []string{"controller", "reason"}),
		},
	})
	return s
}

// run runs the queue for a time, in steps of a millisecond.
func (s *storm) run(t *testing.T, d time.Duration, each func(time.Time)) {
	t.Helper()
	for end := s.clock.Now().Add(d); s.clock.Now().Before(end); s.clock.Step(time.Millisecond) {
		if each != nil {
			each(s.clock.Now())
		}
		for key, due := range s.due {
			if due.After(s.clock.Now()) {
				continue
			}
			delete(s.due, key)
			result, err := s.loop.Reconcile(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if result.RequeueAfter > 0 {
				s.due[key] = s.clock.Now().Add(result.RequeueAfter)
			}
		}
	}
}

// most returns the largest number of writes of old objects in one second.
func (s *storm) most() (most int) {
	perSecond := map[int64]int{}
	for key, at := range s.written {
		if key[0] == 'o' {
			perSecond[at.Unix()]++
			most = max(most, perSecond[at.Unix()])
		}
	}
	return most
}

// Writes about objects from before the start have a bounded rate, a tenth of it while there is
// other work, and other objects do not wait for them.
func TestBacklog(t *testing.T) {
	remaining := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "r"}, []string{"controller"})
	s := newStorm(&Backlog{Remaining: remaining})
	for i := range 700 {
		s.due[fmt.Sprint("old", i)] = s.clock.Now()
	}
	s.run(t, 4*time.Second, nil)
	if n, most := len(s.written), s.most(); n < 290 || most > 151 {
		t.Errorf("%d old objects written in four seconds, up to %d in one", n, most)
	}
	if got := testutil.ToFloat64(remaining); got != float64(700-len(s.written)) {
		t.Errorf("%v remain of %d", got, 700-len(s.written))
	}
	before, n := len(s.written), 0
	s.run(t, 4*time.Second, func(now time.Time) {
		if now.UnixMilli()%100 == 0 {
			s.due[fmt.Sprint("urgent", n)], s.due[fmt.Sprint("new", n)] = now, now
			n++
		}
	})
	for i := range n {
		for _, kind := range []string{"urgent", "new"} {
			at, ok := s.written[fmt.Sprint(kind, i)]
			if want := time.Unix(1004, 0).Add(time.Duration(i) * 100 * time.Millisecond); !ok || !at.Equal(want) {
				t.Fatalf("%s%d waits for old objects: %v, want %v", kind, i, at, want)
			}
		}
	}
	if old := len(s.written) - before - 2*n; old < 10 || old > 30 {
		t.Errorf("%d old objects written in four seconds with other work", old)
	}
	s.run(t, 15*time.Second, nil)
	if got := testutil.ToFloat64(remaining); got != 0 || len(s.written) != 700+2*n {
		t.Errorf("%v remain, %d written", got, len(s.written))
	}
}

// Few old objects wait for nothing, whatever other work there is.
func TestFewOldObjectsDoNotWait(t *testing.T) {
	s := newStorm(&Backlog{})
	s.due["urgent"] = s.clock.Now()
	s.run(t, time.Millisecond, nil)
	for i := range 50 {
		s.due[fmt.Sprint("old", i)] = s.clock.Now()
	}
	s.run(t, time.Millisecond, nil)
	if len(s.written) != 51 {
		t.Errorf("%d written", len(s.written))
	}
}

// Without a backlog all old objects are written at once, which is what [TestBacklog] must detect.
func TestNoBacklog(t *testing.T) {
	s := newStorm(nil)
	for i := range 700 {
		s.due[fmt.Sprint("old", i)] = s.clock.Now()
	}
	s.run(t, time.Second, nil)
	if most := s.most(); most != 700 {
		t.Errorf("%d writes in a second", most)
	}
}

// An object whose write is no longer needed leaves the backlog, and so does a first write when
// there are few.
func TestBacklogEnds(t *testing.T) {
	remaining := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "r"}, []string{"controller"})
	s := newStorm(&Backlog{Remaining: remaining})
	for i := range 110 {
		s.due[fmt.Sprint("old", i)] = s.clock.Now()
	}
	s.run(t, time.Millisecond, nil)
	if len(s.written) != 101 || testutil.ToFloat64(remaining) != 9 {
		t.Errorf("at once: %d written, %v remain", len(s.written), testutil.ToFloat64(remaining))
	}
	s.gone = true
	s.run(t, time.Second, nil)
	if len(s.written) != 101 || testutil.ToFloat64(remaining) != 0 || len(s.due) != 0 {
		t.Errorf("%d written, %v remain", len(s.written), testutil.ToFloat64(remaining))
	}
}
