package sim

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"k8s.io/utils/clock"
)

// jumpingClock is the clock of the machine of the processes under test: its wall clock can jump, as when
// NTP sets it, and its monotonic clock cannot. The API server is on another machine.
type jumpingClock struct {
	clock.RealClock
	began  time.Time
	offset atomic.Int64 // seconds
	wall   bool         // of the mutant: times have no monotonic reading
}

// jump sets the wall clock forward.
func (c *jumpingClock) jump(by time.Duration) { c.offset.Add(int64(by / time.Second)) }

// Now returns a time with both readings, as the one of package time is outside of testing/synctest.
func (c *jumpingClock) Now() time.Time {
	now := time.Now()
	if c.wall {
		return now.Add(time.Duration(c.offset.Load()) * time.Second)
	}
	return withMonotonic(now.Add(time.Duration(c.offset.Load())*time.Second), now.Sub(c.began))
}

// Since returns the time that has passed, by the monotonic clock if t has its reading.
func (c *jumpingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// rawTime has the layout of time.Time.
type rawTime struct {
	wall uint64
	ext  int64
	loc  *time.Location
}

const (
	hasMonotonic = 1 << 63
	from1885     = 2682288000 // seconds to 1970
	nanoBits     = 30
)

// withMonotonic returns a time with a monotonic reading. Package time has no way to set one.
func withMonotonic(t time.Time, reading time.Duration) time.Time {
	raw := rawTime{
		wall: hasMonotonic | uint64(t.Unix()+from1885)<<nanoBits | uint64(t.Nanosecond()),
		ext:  int64(reading) + 1, loc: t.Location(),
	}
	return *(*time.Time)(unsafe.Pointer(&raw))
}

// clockJumps are jumps of the wall clock: alone, between a crash and the next process, and after that one
// has taken over.
// A jump of more than a day makes the entries of the journal stale for a new process, so that one has none.
func clockJumps(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		day := schedule{jumpAt: n, jumpBy: 25 * time.Hour}
		hour := schedule{jumpAt: n, jumpBy: time.Hour}
		deleted := hour
		deleted.deleteAt = n
		all = append(all, day, hour, deleted)
		for _, where := range positions(calm, n) {
			crashed := hour
			crashed.crashes, crashed.downFor = []crash{{n, where}}, briefly
			gone := crashed
			gone.deleteWhileDown = true
			all = append(all, crashed, gone)
		}
	}
	for _, call := range calm.calls { // amid the wait for the call of the previous leader
		for later := call + 1; later <= call+6; later++ {
			s := schedule{crashes: []crash{{call, inFlight}}, downFor: briefly, jumpAt: later, jumpBy: time.Hour}
			deleted, gone := s, s
			deleted.deleteAt, gone.deleteWhileDown = later, true
			all = append(all, s, deleted, gone)
		}
	}
	return all
}

// TestJumpingClock is what a jump changes: the wall clock, and not the time that passes.
func TestJumpingClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &jumpingClock{began: time.Now()}
		before := c.Now()
		if !before.Equal(time.Now()) {
			t.Errorf("%s without a jump, want %s", before, time.Now())
		}
		time.Sleep(time.Minute)
		c.jump(time.Hour)
		after := c.Now()
		if got := after.Sub(before); got != time.Minute {
			t.Errorf("%s have passed, want a minute", got)
		}
		if got := after.Round(0).Sub(before.Round(0)); got != time.Hour+time.Minute {
			t.Errorf("the wall clock went on by %s, want 1h1m", got)
		}
	})
}
