package csirpc

import (
	"time"

	"google.golang.org/grpc/codes"
)

// limit is how many calls of one RPC may be in flight. It begins at the number that the flags allow, as
// upstream has it for good, and moves only while more calls wait:
//
//	a tenth of a round is refused for load, or times out    half of it, or what one timeout was enough for
//	answers come much later than the first of the round    try three quarters of it
//	nothing was tried yet, or not for mostSteady rounds     the same
//	as many calls end in a second with less                stay, and try half of that
//	it is below what the flags allow                       try half as much again; stay if a tenth more calls end
//
// A round is as many answers as may be in flight; the answers to calls that were sent before the limit moved
// are not measured. So a driver that serves each call on its own has as many as the flags allow, one that
// gets slower with each call has as many as it serves best, and calls do not time out in a queue inside of
// the driver. What it costs to find out is the time of the calls that were in flight at first.
type limit struct {
	most, now int
	last      time.Time // of an answer
	round     round
	settle    int // answers until the next round begins
	steady    int // rounds since the last attempt
	patience  int // rounds before the next attempt with less, though answers come late
	trial     *trial
	tried     bool // since the process began
	falling   bool // the last attempt with less was no worse
}

// trial is an attempt with another limit.
type trial struct {
	from int
	rate float64 // answers of success in a second, with the limit from
}

// round counts the answers since it began.
type round struct {
	began             time.Time
	answers, served   int
	overloads         int
	full              bool // ResourceExhausted is among the overloads
	took, fastest     time.Duration
	timedOut, hungers bool
}

// answer is the end of one call.
type answer struct {
	at            time.Time
	took, timeout time.Duration
	code          codes.Code
	waiting       bool // other calls wait for a slot
	inFlight      int  // with this one
}

const (
	mostSteady = 16 // rounds between two attempts without a reason
	tryMore    = 4  // rounds between two attempts to get back to what the flags allow
	// leastFull is the least limit after ResourceExhausted: in CreateVolume and ControllerPublishVolume it
	// may be about one pool or node, and calls about others go on.
	leastFull = 10
)

func newLimit(most int) limit { return limit{most: most, now: most, patience: 1} }

// ended takes an answer into account. It reports whether the limit has moved.
func (l *limit) ended(a answer) (moved bool) {
	last := l.last
	l.last = a.at
	if l.settle > 0 {
		l.settle--
		return false
	}
	if l.round.answers == 0 {
		l.round = round{began: last, hungers: true}
		if sent := a.at.Add(-a.took); sent.After(last) {
			l.round.began = sent
		}
	}
	l.round.add(a)
	if l.round.answers < l.now {
		return false
	}
	r, before := l.round, l.now
	l.round = round{}
	l.decide(r, a)
	if l.now != before {
		l.settle = a.inFlight
	}
	return l.now != before
}

func (r *round) add(a answer) {
	r.answers++
	r.hungers = r.hungers && a.waiting
	switch a.code { //nolint:exhaustive // other answers say nothing about the load
	case codes.OK:
		r.served++
		r.took += a.took
		if r.fastest == 0 || a.took < r.fastest {
			r.fastest = a.took
		}
	case codes.DeadlineExceeded:
		r.overloads++
		r.timedOut = true
	case codes.ResourceExhausted:
		r.overloads++
		r.full = true
	case codes.Aborted, codes.Unavailable:
		r.overloads++
	}
}

func (r *round) rate(until time.Time) float64 {
	return float64(r.served) / max(until.Sub(r.began), time.Millisecond).Seconds()
}

// queues reports that the driver does not serve all calls of the round at once.
func (r *round) queues() bool {
	return r.served > 1 && r.took/time.Duration(r.served) > 4*r.fastest
}

func (l *limit) decide(r round, last answer) {
	rate := r.rate(last.at)
	l.steady++
	switch {
	case r.overloads*10 >= r.answers:
		l.trial, l.steady = nil, 0
		l.now = l.afterOverload(r, last.timeout)
	case l.trial != nil:
		l.judge(rate)
	case !r.hungers || r.served == 0: // nothing is learned of a driver that is asked for less
	case l.now > 1 && l.falling:
		l.try(max(1, l.now/2), rate)
	case l.now > 1 && l.mayNeedLess(r):
		l.try(max(1, l.now*3/4), rate)
	case l.now < l.most && l.steady >= tryMore:
		l.try(min(l.most, l.now+max(1, l.now/2)), rate)
	}
}

// judge ends the trial with the rate of its round.
func (l *limit) judge(rate float64) {
	t, isLess := l.trial, l.now < l.trial.from
	l.trial, l.falling = nil, false
	switch {
	case t.isBetter(l.now, rate):
		l.falling, l.patience = isLess, 1
		return
	case isLess:
		l.patience = min(2*l.patience, mostSteady)
	}
	l.now, l.steady = t.from, 0
}

// mayNeedLess reports that the driver should be tried with less.
func (l *limit) mayNeedLess(r round) bool {
	return !l.tried || r.queues() && l.steady > l.patience || l.steady >= mostSteady && l.now == l.most
}

func (l *limit) try(other int, rate float64) {
	l.trial, l.steady, l.tried = &trial{l.now, rate}, 0, true
	l.now = other
}

// isBetter compares what calls end in a second with a limit.
func (t *trial) isBetter(with int, rate float64) bool {
	if with < t.from {
		return rate >= t.rate*0.95
	}
	return rate >= t.rate*1.1
}

// afterOverload returns the limit after a round with too many answers of overload.
func (l *limit) afterOverload(r round, timeout time.Duration) int {
	least := 1
	if r.full {
		least = min(leastFull, l.now)
	}
	next := l.now / 2
	if r.timedOut && r.served > 0 && r.took/time.Duration(r.served) < timeout {
		next = min(next, r.served*3/4) // about as many as one timeout was enough for
	}
	return max(least, next)
}
