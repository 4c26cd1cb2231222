package capacity

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/core/capacity"
)

// answers remembers when the driver said which capacity, for the age of the data and the metrics.
// It is safe for concurrent use.
type answers struct {
	clock clock.Clock

	mu sync.Mutex
	m  map[capacity.Key]answer
}

type answer struct {
	since   time.Time // the last good answer, or the first question
	count   int       // of good answers
	failing bool
	wanted  capacity.Values // that this process wrote last, or is writing
}

func newAnswers(c clock.Clock) *answers { return &answers{clock: c, m: map[capacity.Key]answer{}} }

// edit changes what is remembered of a key.
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

// writes notes the values of an object before it is written: its event may come before the answer.
func (a *answers) writes(key capacity.Key, values capacity.Values) {
	a.edit(key, func(one *answer) { one.wanted = values })
}

// planned starts to count the age of a key.
func (a *answers) planned(key capacity.Key) { a.edit(key, func(*answer) {}) }

// forget drops a key that is not published any more.
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

// isFirst reports whether the driver has said this capacity once only.
func (a *answers) isFirst(key capacity.Key) bool { return a.get(key).count <= 1 }

// unanswered is for how long the driver has failed to say a capacity.
func (a *answers) unanswered(key capacity.Key) time.Duration {
	one := a.get(key)
	if !one.failing {
		return 0
	}
	return a.clock.Since(one.since)
}

// ages returns the age of the oldest answer and the number of failing segments of a plan, by class.
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
