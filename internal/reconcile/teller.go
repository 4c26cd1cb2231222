package reconcile

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/core/verdict"
)

// TellAgain is after how long an event about a state that goes on is emitted again:
// the API server forgets events within an hour.
const TellAgain = 30 * time.Minute

// tellings are the last events about one object or key, by reason.
type tellings map[string]telling

// telling is the last event of a reason.
type telling struct {
	text  string
	at    time.Time
	waits bool // the event says what the object waits for
}

// isNew reports whether an event with this text was not emitted yet, or, where the state that it is
// about goes on, not within [TellAgain], and notes it.
func (t tellings) isNew(reason, text string, now time.Time, goesOn, waits bool) bool {
	last, told := t[reason]
	if told && last.text == text && (!goesOn || now.Sub(last.at) < TellAgain) {
		return false
	}
	t[reason] = telling{text, now, waits}
	return true
}

// Teller emits the events of a controller whose decisions are about several objects, as the binder's
// are about a claim and a volume. An event that repeats the last one of its reason about the object
// is emitted only after [TellAgain]. Upstream repeats each every 15 seconds.
type Teller struct {
	events Recorder
	clock  clock.PassiveClock
	mu     sync.Mutex
	told   map[types.UID]tellings
	swept  time.Time
}

// NewTeller returns a Teller that has emitted nothing.
func NewTeller(events Recorder, now clock.PassiveClock) *Teller {
	return &Teller{events: events, clock: now, told: map[types.UID]tellings{}}
}

// Tell emits the event of a finding about an object.
func (t *Teller) Tell(object runtime.Object, uid types.UID, f verdict.Finding) {
	t.emit(object, uid, f, false)
}

// TellWaiting emits what an object waits for. That is one reason at a time: an earlier one is
// emitted again when it is true again.
func (t *Teller) TellWaiting(object runtime.Object, uid types.UID, f verdict.Finding) {
	t.mu.Lock()
	maps.DeleteFunc(t.told[uid], func(reason string, last telling) bool {
		return last.waits && reason != string(f.Reason)
	})
	t.mu.Unlock()
	t.emit(object, uid, f, true)
}

// Forget drops what was emitted about an object that has come to another phase, so that it is
// emitted at once when it is true again.
func (t *Teller) Forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.told, uid)
}

func (t *Teller) emit(object runtime.Object, uid types.UID, f verdict.Finding, waits bool) {
	info := verdict.Describe(f.Reason)
	if info.Severity == verdict.Silent || !t.isNew(uid, f, waits) {
		return
	}
	t.events.Event(object, eventType(info.Severity), info.Event, f.Text())
}

func (t *Teller) isNew(uid types.UID, f verdict.Finding, waits bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	t.sweep(now)
	if t.told[uid] == nil {
		t.told[uid] = tellings{}
	}
	return t.told[uid].isNew(string(f.Reason), f.Text(), now, true, waits)
}

// sweep drops what would be emitted again. The caller holds mu.
func (t *Teller) sweep(now time.Time) {
	if now.Sub(t.swept) < TellAgain {
		return
	}
	t.swept = now
	for uid, told := range t.told {
		maps.DeleteFunc(told, func(_ string, last telling) bool { return now.Sub(last.at) >= TellAgain })
		if len(told) == 0 {
			delete(t.told, uid)
		}
	}
}
