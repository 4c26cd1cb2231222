package capacity

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/reconcile"
)

// answers records the outcome of GetCapacity calls by key: when the last one succeeded, and whether
// they fail now. It is safe for concurrent use.
type answers struct {
	clock clock.Clock

	mu sync.Mutex
	m  map[capacity.Key]answer
}

type answer struct {
	since   time.Time // of the last good response; before the first one, when the key was added
	count   int       // of good responses
	failing bool
	wanted  capacity.Values // the values that this process wrote last, or is writing
	wrote   time.Time       // when
	undone  int             // how often in a row another client changed or deleted the object
	repairs time.Time       // when the last such change is repaired
}

const (
	// fewUndone is how many changes in a row by another client are repaired at once.
	fewUndone = 5
	// undoneWithin is after how long without such a change the next one is the first again.
	undoneWithin = 30 * time.Second
)

func newAnswers(c clock.Clock) *answers { return &answers{clock: c, m: map[capacity.Key]answer{}} }

// edit changes the record of a key.
func (a *answers) edit(key capacity.Key, change func(*answer)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, ok := a.m[key]
	if !ok {
		one.since = a.clock.Now()
	}
	change(&one)
	a.m[key] = one
}

func (a *answers) succeeded(key capacity.Key) {
	a.edit(key, func(one *answer) { one.since, one.failing, one.count = a.clock.Now(), false, one.count+1 })
}

func (a *answers) failed(key capacity.Key) { a.edit(key, func(one *answer) { one.failing = true }) }

// writes records the values of an object before it is written: the watch event may come before the
// API server's response.
func (a *answers) writes(key capacity.Key, values capacity.Values) {
	a.edit(key, func(one *answer) { one.wanted, one.wrote = values, a.clock.Now() })
}

// undone returns when a change by another client is to be repaired.
func (a *answers) undone(key capacity.Key, b reconcile.Backoff) (after time.Duration) {
	now := a.clock.Now()
	a.edit(key, func(one *answer) {
		if now.Sub(one.repairs) > undoneWithin {
			one.undone = 0
		}
		if one.undone++; one.undone > fewUndone {
			after = b.Delay(one.undone - fewUndone)
		}
		one.repairs = now.Add(after)
	})
	return after
}

// planned starts the age of a key's data.
func (a *answers) planned(key capacity.Key) { a.edit(key, func(*answer) {}) }

// forget removes a key that is no longer published.
func (a *answers) forget(key capacity.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.m, key)
}

func (a *answers) get(key capacity.Key) answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.m[key]
}

// isFirst reports whether at most one GetCapacity call for the key has succeeded.
func (a *answers) isFirst(key capacity.Key) bool { return a.get(key).count <= 1 }

// failingFor returns the time since the last good response if GetCapacity calls for the key fail
// now; else 0.
func (a *answers) failingFor(key capacity.Key) time.Duration {
	one := a.get(key)
	if !one.failing {
		return 0
	}
	return a.clock.Since(one.since)
}

// ages returns, by class of the plan, the age of the oldest response and the number of failing
// segments.
func (a *answers) ages(plan *capacity.Plan) (oldest map[string]time.Duration, failing map[string]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	oldest, failing = map[string]time.Duration{}, map[string]int{}
	for key, one := range a.m {
		if !plan.Keys[key] {
			continue
		}
		oldest[key.Class] = max(oldest[key.Class], a.clock.Since(one.since))
		if one.failing {
			failing[key.Class]++
		}
	}
	return oldest, failing
}
