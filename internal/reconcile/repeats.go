package reconcile

import (
	"sync"
	"time"
)

// A run that does what one of the last runs did, for the same reason and with the object as it was, has
// not changed anything: another client changes the object back, a stale cache shows it as it was, a call
// succeeds without effect, or two actions undo each other in turns.
const (
	// fewRepeats is how many such runs in a row are normal, if each does the same. Of runs that
	// alternate, each may be repeated so often.
	fewRepeats = 5
	// longestCycle is the number of different actions that are found to alternate.
	longestCycle = 3
	// repeatWithin is after how long without such a run the next one is the first again. A run that
	// comes when the verdict of the last one asked for it, later than pace, is the first too: it polls.
	repeatWithin = 30 * time.Second
	pace         = time.Second
	// repeatKeys bounds the number of remembered keys.
	repeatKeys = 4096
)

// did is what a run did: the kinds of its actions, and the digest with all contents, which is taken when
// the next run of these kinds comes; 0 for none.
type did struct {
	kinds, digest uint64
	again         bool // one of the runs in a row did it
}

// repeat is what the last runs of a key did.
type repeat struct {
	did         [longestCycle]did // all different, the latest first
	runs        int               // in a row that each did what is in did
	last, rests time.Time         // when the latest was done, and until when the key rests
	due         time.Time         // when the verdict asked for the next run; zero for an event
	failed      bool              // the latest run, whose retry is no repetition
	told        time.Time         // when an event said so; zero for never
}

// goesOn reports whether a run now can be the next of those in a row.
func (r *repeat) goesOn(now time.Time) bool {
	return now.Sub(r.last) <= repeatWithin || now.Sub(r.rests) <= repeatWithin
}

// find returns the place in did of what a run does, or of a run of these kinds without a digest; -1 for
// none. digest is only called for runs of these kinds.
func (r *repeat) find(kinds uint64, digest func() uint64) (place int, sum uint64) {
	place = -1
	for i, one := range r.did {
		if one.kinds != kinds {
			continue
		}
		if sum == 0 {
			sum = digest()
		}
		if one.digest == sum {
			return i, sum
		}
		if one.digest == 0 {
			place = i
		}
	}
	return place, sum
}

// move puts what a run does first. place is where it was; -1 for a new one, for which the oldest is dropped.
func (r *repeat) move(place int, one did) {
	if place < 0 {
		place = len(r.did) - 1
	}
	copy(r.did[1:place+1], r.did[:place])
	r.did[0] = one
}

// restart begins a new row, with a run that does something else.
func (r *repeat) restart() {
	next := repeat{runs: 1, did: r.did}
	for i := range next.did {
		next.did[i].again = false
	}
	*r = next
}

// cycle returns how many different things the runs in a row do.
func (r *repeat) cycle() (n int) {
	for _, one := range r.did {
		if one.again {
			n++
		}
	}
	return max(n, 1)
}

// repeats has the last runs of each key that acted. It is safe for concurrent use.
type repeats[K comparable] struct {
	mu    sync.Mutex
	m     map[K]*repeat
	swept time.Time // when the keys that are over were last removed
}

// sweepEvery bounds the cost of a burst with more keys than are remembered: each new key would look at all
// of these.
const sweepEvery = time.Second

// begin notes what a run is about to do. It returns until when the key rests instead; the zero time
// if it does not. digest is only called when the kinds of the actions are those of one of the last runs.
func (r *repeats[K]) begin(key K, kinds uint64, digest func() uint64, now time.Time) (rests time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.m[key]
	asked := known && !last.due.IsZero() && !now.Before(last.due)
	if !known || asked && !last.failed || !last.goesOn(now) {
		one := &repeat{runs: 1, last: now}
		one.move(-1, did{kinds: kinds})
		r.note(key, one, now)
		return time.Time{}
	}
	place, sum := last.find(kinds, digest)
	switch {
	case place < 0:
		last.restart()
	case last.did[place].digest == 0: // the second of its kinds
	case now.Before(last.rests):
		return last.rests
	case !asked:
		last.runs++
	}
	last.move(place, did{kinds: kinds, digest: sum, again: place >= 0})
	last.last, last.due = now, time.Time{}
	return time.Time{}
}

// note adds a key. Those that are over make room.
func (r *repeats[K]) note(key K, one *repeat, now time.Time) {
	if r.m == nil {
		r.m = map[K]*repeat{}
	}
	if _, known := r.m[key]; !known && len(r.m) >= repeatKeys {
		if now.Sub(r.swept) < sweepEvery {
			return
		}
		r.swept = now
		for other, last := range r.m {
			if !last.goesOn(now) {
				delete(r.m, other)
			}
		}
		if len(r.m) >= repeatKeys {
			return
		}
	}
	r.m[key] = one
}

// throttle is what follows from runs that repeat each other.
type throttle struct {
	runs, cycle int           // how many, and how many different ones among them; 0 if they are not too many
	rest        time.Duration // how long the key rests
	tell        bool          // an event is due
}

// end notes how the run ended. due is when its verdict asks for the next one; zero for an event. most is how
// many runs in a row may do the same. A failed run is like any other: its first actions can have changed
// the object, and the event of that comes before the retry is due.
func (r *repeats[K]) end(key K, failed bool, due time.Time, most int, b Backoff, now time.Time) (t throttle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.m[key]
	if !known {
		return throttle{}
	}
	if last.failed = failed; failed || due.Sub(now) >= pace {
		last.due = due
	}
	cycle := last.cycle()
	if last.runs < most*cycle {
		return throttle{}
	}
	t = throttle{runs: last.runs, cycle: cycle, rest: b.Delay(last.runs - most*cycle + 1)}
	last.rests = now.Add(t.rest)
	if t.tell = last.told.IsZero() || now.Sub(last.told) >= TellAgain; t.tell {
		last.told = now
	}
	return t
}
