package reclaim

import (
	"testing"
	"time"
)

// H-1: a volume that a call of the previous leader may create again is not deleted before that call
// must have ended.
func TestDeletionWaitsForPreviousLeaderCalls(t *testing.T) {
	ends := time.Unix(1000, 0)
	s := world(func(s *Snapshot) { s.CallsEnd, s.Now = ends, ends.Add(-time.Second) })
	if v, ok := Decide(s).(wait); !ok || shape(v) != "wait WaitForPreviousLeaderCalls" || !v.Until.Equal(ends) {
		t.Errorf("before: got %+v", v)
	}
	s.Now = ends
	if got, want := shape(Decide(s)), shape(Decide(world())); got != want {
		t.Errorf("afterwards: got %s, want %s", got, want)
	}
}
