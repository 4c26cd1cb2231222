package reconcile

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/verdict"
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
	again time.Duration // after which the same event is emitted again; 0 for never
	waits bool          // the event says what the object waits for
}

// isDue reports whether the same event may be emitted again.
func (t telling) isDue(now time.Time) bool { return t.again > 0 && now.Sub(t.at) >= t.again }

// isNew reports whether the event differs from the last one of its reason, or is due again, and notes
// it.
func (t tellings) isNew(reason string, next telling) bool {
	if last, ok := t[reason]; ok && last.text == next.text && !last.isDue(next.at) {
		return false
	}
	t[reason] = next
	return true
}

// Notice is an event whose reason and text are contracts with users, and not those of a finding.
type Notice struct {
	Type, Reason, Message string
	// Decided is the reason of the decision where it is more precise than that of the event; may be empty.
	Decided verdict.Reason
	// Topic is what the notice is about, for instance a volume of a pod. A notice with the same State
	// as the last one of its topic repeats it.
	Topic, State string
	// Again is after how long a repetition is emitted; 0 for never, until the object is forgotten.
	Again time.Duration
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

// Notify emits a notice about an object, unless it repeats the last one of its topic too early.
func (t *Teller) Notify(object runtime.Object, uid types.UID, n Notice) {
	if t.isNew(uid, n.Topic, telling{text: n.State, again: n.Again}) {
		Emit(t.events, cmp.Or(n.Decided, verdict.Reason(n.Reason)), object, n.Type, n.Reason, n.Message)
	}
}

// Forget drops the events about an object that has come to another phase, or that is deleted. They
// are emitted at once when they are true again.
func (t *Teller) Forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.told, uid)
}

func (t *Teller) emit(object runtime.Object, uid types.UID, f verdict.Finding, waits bool) {
	info := verdict.Describe(f.Reason)
	next := telling{text: f.Text(), again: TellAgain, waits: waits}
	if info.Severity == verdict.Silent || !t.isNew(uid, string(f.Reason), next) {
		return
	}
	Emit(t.events, f.Reason, object, eventType(info.Severity), info.Event, f.Text())
}

func (t *Teller) isNew(uid types.UID, reason string, next telling) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	next.at = t.clock.Now()
	t.sweep(next.at)
	if t.told[uid] == nil {
		t.told[uid] = tellings{}
	}
	return t.told[uid].isNew(reason, next)
}

// sweep drops the events that are due again. The caller holds mu.
func (t *Teller) sweep(now time.Time) {
	if now.Sub(t.swept) < TellAgain {
		return
	}
	t.swept = now
	for uid, told := range t.told {
		maps.DeleteFunc(told, func(_ string, last telling) bool { return last.isDue(now) })
		if len(told) == 0 {
			delete(t.told, uid)
		}
	}
}
