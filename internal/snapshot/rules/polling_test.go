package snapshotting

import (
	"testing"
	"time"
)

// SN-H17: a snapshot is polled less often with its age, and one that is never ready costs little.
func TestPollingPause(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		-time.Minute: time.Second, 0: time.Second, 8 * time.Second: 2 * time.Second, time.Minute: 15 * time.Second,
		2 * time.Minute: 15 * time.Second, 10 * time.Minute: time.Minute, time.Hour: 5 * time.Minute, 100 * time.Hour: 5 * time.Minute,
	} {
		if got := pollingPause(age); got != want {
			t.Errorf("after %s: %s, want %s", age, got, want)
		}
	}
}
