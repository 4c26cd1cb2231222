package csirpc

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// model is a driver in virtual time: speed returns how fast the i-th oldest of n calls in flight goes on,
// where 1 ends a call after work.
type model struct {
	work    func(i int) time.Duration // of the i-th call
	speed   func(i, n int) float64
	timeout time.Duration
}

// run ends when the operations have succeeded; one that timed out is sent again. It returns the time and
// the number of calls.
func (m model) run(operations int, l *limit, moves bool) (took time.Duration, calls int) {
	type call struct {
		began time.Time
		left  time.Duration
	}
	now := time.Unix(0, 0)
	var inFlight []*call
	for waiting := operations; waiting > 0 || len(inFlight) > 0; {
		for ; waiting > 0 && len(inFlight) < l.now; waiting-- {
			inFlight = append(inFlight, &call{now, m.work(calls)})
			calls++
		}
		n, next, which := len(inFlight), time.Duration(1<<62), 0
		for i, c := range inFlight {
			end := c.began.Add(m.timeout).Sub(now)
			if v := m.speed(i, n); v > 0 {
				end = min(end, time.Duration(float64(c.left)/v))
			}
			if end < next {
				next, which = end, i
			}
		}
		for i, c := range inFlight {
			c.left -= time.Duration(float64(next) * m.speed(i, n))
		}
		now = now.Add(next)
		ended := inFlight[which]
		inFlight = append(inFlight[:which], inFlight[which+1:]...)
		a := answer{at: now, took: now.Sub(ended.began), timeout: m.timeout, waiting: waiting > 0, inFlight: n}
		if ended.left > time.Microsecond {
			a.code = codes.DeadlineExceeded
			waiting++
		}
		if moves {
			l.ended(a)
		}
		if calls > 100*operations {
			return 1 << 62, calls
		}
	}
	return now.Sub(time.Unix(0, 0)), calls
}

func servers(n int) func(i, of int) float64 {
	return func(i, _ int) float64 {
		if i < n {
			return 1
		}
		return 0
	}
}

func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// different is from half of d to twice as long.
func different(d time.Duration) func(int) time.Duration {
	return func(i int) time.Duration { return d/2 + d*3/2*time.Duration(i*7919%101)/100 }
}

// The limit finds what suits a driver: all operations end no later than with the best fixed limit and a
// tenth, with at most 1.2 calls for each.
func TestLimitSuitsDriver(t *testing.T) {
	const operations, most = 10_000, 100
	for name, tc := range map[string]struct {
		model
		factor float64 // of the time with the best fixed limit
	}{
		"each call on its own":       {model{always(50 * time.Millisecond), servers(most), 15 * time.Second}, 1.1},
		"calls of different length":  {model{different(time.Second), servers(most), 15 * time.Second}, 1.1},
		"twenty at once":             {model{always(time.Second), servers(20), 15 * time.Second}, 1.1},
		"twenty of different length": {model{different(time.Second), servers(20), 15 * time.Second}, 1.1},
		"serialises":                 {model{always(100 * time.Millisecond), servers(1), 15 * time.Second}, 1.1},
		"serialises, and times out":  {model{always(time.Second), servers(1), 15 * time.Second}, 1.1},
		// The calls that are in flight at first take a third of the time; a limit of 100 takes ten times as long.
		"slower with each call beyond ten": {model{always(100 * time.Millisecond), func(_, n int) float64 {
			return min(1, 100/float64(n*n))
		}, 15 * time.Second}, 1.6},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.model
			best, with := time.Duration(1<<62), 0
			for _, fixed := range []int{1, 5, 10, 15, 20, 30, 50, most} {
				if took, _ := m.run(operations, &limit{now: fixed}, false); took < best {
					best, with = took, fixed
				}
			}
			l := newLimit(most)
			took, calls := m.run(operations, &l, true)
			fixed, callsOfFixed := m.run(operations, &limit{now: most}, false)
			t.Logf("%s with %d calls, limit %d at the end; best fixed limit %d: %s; limit %d: %s with %d calls",
				took, calls, l.now, with, best, most, fixed, callsOfFixed)
			if float64(took) > float64(best)*tc.factor {
				t.Errorf("%s, and %s with the best fixed limit", took, best)
			}
			if calls > operations*12/10 {
				t.Errorf("%d calls for %d operations", calls, operations)
			}
		})
	}
}
