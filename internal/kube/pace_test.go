package kube

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// EV-1: events go as fast as the API server answers, and rest when it is busy with what others write.
func TestPace(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		answers []time.Duration
		rest    time.Duration // after the last of them
	}{
		"nothing is known before the first": {nil, 0},
		"the first says what is usual":      {[]time.Duration{40 * ms}, 0},
		"as usual":                          {[]time.Duration{2 * ms, 2 * ms}, 0},
		"somewhat slower":                   {[]time.Duration{2 * ms, 8 * ms}, 0},
		"busy":                              {[]time.Duration{2 * ms, 20 * ms}, 160 * ms},
		"busy at first":                     {[]time.Duration{40 * ms, 2 * ms, 20 * ms}, 160 * ms},
		"very busy":                         {[]time.Duration{2 * ms, 3000 * ms}, mostRest},
		"not busy any more":                 {[]time.Duration{2 * ms, 20 * ms, 2 * ms}, 0},
		"busy for a while":                  {slices.Repeat([]time.Duration{2 * ms, 20 * ms}, 500), 160 * ms},
		"slow for good":                     {append([]time.Duration{2 * ms}, slices.Repeat([]time.Duration{20 * ms}, 100)...), 0},
	} {
		t.Run(name, func(t *testing.T) {
			var p pace
			for _, took := range tc.answers {
				p.answered(took)
			}
			if p.due != tc.rest {
				t.Errorf("rests %s, want %s", p.due, tc.rest)
			}
		})
	}
}

// A writer that rests is not later than the patience of its event, and does not hold up the end of
// the process.
func TestEventsRest(t *testing.T) {
	for name, tc := range map[string]struct {
		due   time.Duration
		age   time.Duration // of the event, when its turn comes
		close bool
		after time.Duration // the time until it is written
	}{
		"not when there is no need": {0, 0, false, 0},
		"as long as is due":         {300 * time.Millisecond, 0, false, 300 * time.Millisecond},
		"not when it is late":       {300 * time.Millisecond, yieldTime, false, 0},
		"less when it is nearly so": {300 * time.Millisecond, yieldTime - 100*time.Millisecond, false, 100 * time.Millisecond},
		"not when all is over":      {300 * time.Millisecond, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop := make(chan struct{})
				if tc.close {
					close(stop)
				}
				began, p := time.Now(), pace{due: tc.due}
				for range 2 { // once for an answer
					p.rest(began.Add(patience(corev1.EventTypeNormal)-tc.age), stop)
				}
				if got := time.Since(began); got != tc.after {
					t.Errorf("rested %s, want %s", got, tc.after)
				}
			})
		})
	}
}

// A burst is written as fast as the API server answers, and one that comes while others keep it
// busy leaves it most of its time.
func TestEventsLeaveTimeToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newSink(2 * time.Millisecond)
		events := newEvents(t.Context(), EventsConfig{Component: "test"}, sink)
		burst := func(n int, what string) {
			for i := range n { // of one object, and so in one lane; no two are alike, which would be one
				events.Event(claim("a"), corev1.EventTypeNormal, fmt.Sprintf("Reason%d", i), what)
			}
		}
		burst(8, "at rest")
		if time.Sleep(25 * time.Millisecond); sink.written() != 8 {
			t.Errorf("%d of 8 events were written in the time of 8 answers", sink.written())
		}
		sink.fails.Store(1) // at once, which is not how long an answer takes; it is tried again after a second
		burst(8, "again")
		if time.Sleep(1025 * time.Millisecond); sink.written() != 16 {
			t.Errorf("%d of 8 events were written in the time of 8 answers after one had failed", sink.written()-8)
		}
		sink.takes = 50 * time.Millisecond
		burst(8, "busy")
		if time.Sleep(time.Second); sink.written() != 19 {
			t.Errorf("%d events were written in a second of which they may have a ninth, want 3", sink.written()-16)
		}
		time.Sleep(time.Minute)
		if sink.written() != 24 {
			t.Errorf("%d events were written in the end", sink.written())
		}
		events.Close()
	})
}
