package life

import (
	"fmt"
	"slices"
	"time"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

const (
	// worthAsking is from which length on an interval is searched for the times at which its reason
	// changed.
	worthAsking = 200 * time.Millisecond
	// mostAsked bounds the explanations of one interval.
	mostAsked = 24
	// mostWide bounds the states of one life for which all objects are looked at that a scheduler does, in
	// a large source. Then no more changes of a reason are searched for.
	mostWide = 4
)

// answer is what explain says at one time: a finding, or the summary of an object that is well.
type answer struct {
	finding *explain.Finding
	summary string
	known   bool
}

func (a answer) same(other answer) bool {
	if a.finding == nil || other.finding == nil {
		return a.known == other.known && a.finding == other.finding
	}
	return a.finding.Reason == other.finding.Reason && a.finding.Cause == other.finding.Cause
}

// intervals cuts a phase at its marks, then where the reason of a wait changed, then around calls.
func (b *builder) intervals(s span) (all []Interval) {
	at := s.from
	for _, m := range b.volume.path(s.from, s.to, s.path...) {
		if m.At.After(at) {
			all = append(all, b.explained(s, at, m.At, &m)...)
			at = m.At
		}
	}
	if s.to.After(at) {
		all = append(all, b.explained(s, at, s.to, nil)...)
	}
	return b.withCalls(joined(all))
}

// joined makes one interval of those that follow each other with the same party and reason.
func joined(intervals []Interval) (all []Interval) {
	for _, i := range intervals {
		if n := len(all); n > 0 && i.Reason != "" && all[n-1].Reason == i.Reason && *all[n-1].Cause == *i.Cause &&
			all[n-1].Lane == i.Lane {
			i.From = all[n-1].From
			all[n-1] = i
			continue
		}
		all = append(all, i)
	}
	return all
}

// explained returns the intervals between two times, each with its reason. ends is what happened at
// the second; nil if the source ends there.
func (b *builder) explained(s span, from, to time.Time, ends *Mark) (all []Interval) {
	first, last := b.stateAt(from), b.stateAt(to)
	b.brief = to.Sub(from) < worthAsking
	if ends != nil && ends.index >= 0 {
		last = ends.index // the state before that change
	}
	if b.States == nil || from.Before(b.Begin) {
		if ends != nil || b.States != nil {
			return []Interval{b.fromEvents(s, b.interval(from, to, ends, answer{}))}
		}
		return []Interval{b.interval(from, to, ends, b.ask(s, len(b.changes), to))}
	}
	a := b.ask(s, first, from)
	if to.Sub(from) < worthAsking || last <= first {
		if a.finding == nil && ends == nil {
			a = b.ask(s, last, to)
		}
		return []Interval{b.interval(from, to, ends, a)}
	}
	asked := mostAsked
	at := from
	for _, t := range b.turns(s, first, last, a, b.ask(s, last, to), &asked) {
		when := b.changes[t.state-1].At
		if when.After(at) {
			all = append(all, b.interval(at, when, ends, a))
			at = when
		}
		a = t.answer
	}
	return append(all, b.interval(at, to, ends, a))
}

// turn is a state from which on the answer is another one.
type turn struct {
	state  int
	answer answer
}

// precision is how well the time is known at which the reason of a wait changed: to a fiftieth of
// the phase.
func (s span) precision() time.Duration { return max(s.to.Sub(s.from)/50, 50*time.Millisecond) }

// turns finds by bisection the states between two at which the answer changed.
func (b *builder) turns(s span, first, last int, before, after answer, asked *int) []turn {
	switch {
	case before.same(after):
		return nil
	case last-first <= 1, *asked <= 0, b.wide >= mostWide,
		first > 0 && b.changes[last-1].At.Sub(b.changes[first-1].At) < s.precision():
		return []turn{{last, after}}
	}
	middle := first + (last-first)/2
	*asked--
	between := b.ask(s, middle, b.changes[middle-1].At)
	return append(b.turns(s, first, middle, before, between, asked),
		b.turns(s, middle, last, between, after, asked)...)
}

// stateAt returns how many changes have happened at a time.
func (h *History) stateAt(at time.Time) int {
	n, _ := slices.BinarySearchFunc(h.changes, at, func(c Change, at time.Time) int {
		if c.At.After(at) {
			return 1
		}
		return -1
	})
	return n
}

// ask explains the first object of the focus that exists in a state and is stuck, else the last
// that exists.
func (b *builder) ask(s span, state int, now time.Time) (last answer) {
	var cluster *explain.Cluster
	for _, ref := range s.focus {
		a, asked := b.states[state][ref]
		if !asked {
			if cluster == nil {
				cluster = b.clusterOf(state, now)
			}
			a = answerOf(cluster, ref)
			if b.states[state] == nil {
				b.states[state] = map[explain.Ref]answer{}
			}
			b.states[state][ref] = a
		}
		if a.finding != nil {
			return a
		}
		if a.known {
			last = a
		}
	}
	return last
}

func (b *builder) clusterOf(state int, now time.Time) *explain.Cluster {
	if b.States == nil {
		return b.Final
	}
	return b.stateOf(state, now)
}

func answerOf(cluster *explain.Cluster, ref explain.Ref) answer {
	report := cluster.Explain(ref)
	switch {
	case report.State == explain.Stuck && len(report.Findings) > 0:
		return answer{finding: &report.Findings[0], summary: report.Summary, known: true}
	case report.State == explain.Well:
		return answer{summary: report.Summary, known: true}
	}
	return answer{}
}

// interval names the party and the reason of the time between two marks.
func (b *builder) interval(from, to time.Time, ends *Mark, a answer) Interval {
	i := Interval{From: from, To: to, Ends: ends, State: Unknown, What: "not known"}
	if ends != nil && ends.Lane != NoLane {
		i.Lane, i.State, i.What = ends.Lane, Working, "until "+ends.What
		if ends.Lane == User {
			i.State = Waiting
		}
	}
	if f := a.finding; f != nil {
		cause := f.Cause
		i.Reason, i.Cause, i.Actor, i.Finding = f.Reason, &cause, f.Actor, f
		i.What = "waits for " + f.WaitsFor
		i.State = Waiting
		if f.Actor == explain.Itself {
			i.State = Working
		}
		// A user who creates a pod ends no wait of a controller.
		lane := reasonLane(f)
		if ends == nil || ends.Lane == NoLane || lane == User || ends.Lane == User && lane != NoLane {
			i.Lane = lane
		}
		return i
	}
	if ends == nil && a.known {
		i.Lane, i.State, i.What = User, Used, a.summary
	}
	return i
}

// fromEvents gives an interval of which no cluster is known the last warning about an object of the
// phase in it.
func (b *builder) fromEvents(s span, i Interval) Interval {
	var last *Mark
	for _, ref := range s.focus {
		for _, m := range b.eventMarks(ref, i.From, i.To) {
			if isWarning(m) && (last == nil || m.At.After(last.At)) {
				last = &m
			}
		}
	}
	if last != nil {
		i.State, i.What = Waiting, fmt.Sprintf("%s; last event: %s", i.What, last.What)
		if i.Lane == NoLane {
			i.Lane = last.Lane
		}
	}
	return i
}

// withCalls cuts intervals around the calls to the driver, which are its work.
func (b *builder) withCalls(intervals []Interval) (all []Interval) {
	for _, i := range intervals {
		for _, c := range b.life.Calls {
			if c.Code == "" {
				continue // a decision
			}
			from, to := later(c.From, i.From), earlier(c.To, i.To)
			if !to.After(from) {
				continue
			}
			if from.After(i.From) {
				before := i
				before.To, before.Ends = from, nil
				all = append(all, before)
			}
			call := i
			call.From, call.To, call.Lane, call.State, call.Call = from, to, Driver, Working, &c
			call.What, call.Ends = fmt.Sprintf("%s: %s", c.Name, c.Code), nil
			all = append(all, call)
			i.From = to
		}
		if i.To.After(i.From) {
			all = append(all, i)
		}
	}
	return all
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func usersText(n int) string {
	switch n {
	case 0:
		return "no pod uses it"
	case 1:
		return "a pod uses it"
	}
	return fmt.Sprintf("%d pods use it", n)
}
