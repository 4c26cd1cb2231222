package kube

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// 8.9: the time that requests wait for the limiter is reported.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := NewThrottle(2, 3)
		if err := throttle.Wait(t.Context()); err != nil { // before Tell
			t.Fatal(err)
		}
		var waited float64
		throttle.Tell(func(seconds float64) { waited += seconds })
		for range 4 {
			if err := throttle.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if waited < 0.999 || waited > 1.001 { // two pass at once, and the next two after half a second each
			t.Errorf("waited for %v seconds, want 1", waited)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if throttle.Wait(short) == nil {
			t.Error("passes although there is no time to wait")
		}
	})
}
