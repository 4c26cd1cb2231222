package reclaim

import (
	"testing"
	"time"
)

// H-1: a volume that a call of the previous leader may create again is not deleted before that call
// must have ended.
func TestDeletionWaitsForPreviousLeaderCalls(t *testing.T) {
	ends := releasedAt.Add(2 * time.Second)
	s := world(with(ReadCallsEnd, "pv", Answer{CallsEnd: ends}), func(s *Snapshot) { s.now = ends.Add(-time.Second) })
	if v, ok := decided(s).(wait); !ok || shape(v) != "wait WaitForPreviousLeaderCalls" || !v.Until.Equal(ends) {
		t.Errorf("before: got %+v", v)
	}
	s.now = ends
	if got, want := shape(decided(s)), shape(decided(world())); got != want {
		t.Errorf("afterwards: got %s, want %s", got, want)
	}
}
