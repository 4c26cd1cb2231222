package binder

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/core/binding"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/reconcile"
)

// teller writes events, and the same one about the same object again only after a while: the API
// server forgets events within an hour, and a claim may wait longer than that. Upstream repeats
// each every 15 seconds.
type teller struct {
	events reconcile.Recorder
	clock  clock.PassiveClock
	mu     sync.Mutex
	told   map[types.UID]map[verdict.Reason]telling
	swept  time.Time
}

type telling struct {
	text  string
	at    time.Time
	waits bool // for what people were told of
}

// tellAgain is after how long an event is repeated.
const tellAgain = 30 * time.Minute

func newTeller(events reconcile.Recorder, now clock.PassiveClock) *teller {
	return &teller{events: events, clock: now, told: map[types.UID]map[verdict.Reason]telling{}}
}

// tellWaiting tells what an object waits for. That is one thing at a time: what it waited for
// before is news when it is true again.
func (t *teller) tellWaiting(object runtime.Object, uid types.UID, f verdict.Finding) {
	t.mu.Lock()
	maps.DeleteFunc(
		t.told[uid],
		func(reason verdict.Reason, last telling) bool { return last.waits && reason != f.Reason },
	)
	t.mu.Unlock()
	t.write(object, uid, f, true)
}

func (t *teller) tell(object runtime.Object, uid types.UID, f verdict.Finding) {
	t.write(object, uid, f, false)
}

func (t *teller) write(object runtime.Object, uid types.UID, f verdict.Finding, waits bool) {
	info := verdict.Describe(f.Reason)
	if info.Severity == verdict.Silent || !t.isNew(uid, f, waits) {
		return
	}
	kind := corev1.EventTypeNormal
	if info.Severity == verdict.Warning {
		kind = corev1.EventTypeWarning
	}
	t.events.Event(object, kind, info.Event, f.Text())
}

func (t *teller) isNew(uid types.UID, f verdict.Finding, waits bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	t.sweep(now)
	last, ok := t.told[uid][f.Reason]
	if ok && last.text == f.Text() && now.Sub(last.at) < tellAgain {
		return false
	}
	if t.told[uid] == nil {
		t.told[uid] = map[verdict.Reason]telling{}
	}
	t.told[uid][f.Reason] = telling{f.Text(), now, waits}
	return true
}

// forget what was told of an object that is well, or is in another phase, so that it is told at
// once when it is true again.
func (t *teller) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.told, uid)
}

func (t *teller) sweep(now time.Time) {
	if now.Sub(t.swept) < tellAgain {
		return
	}
	t.swept = now
	for uid, reasons := range t.told {
		for reason, last := range reasons {
			if now.Sub(last.at) >= tellAgain {
				delete(reasons, reason)
			}
		}
		if len(reasons) == 0 {
			delete(t.told, uid)
		}
	}
}

// tell writes an event that is an action of its own.
func (c *Controller) tell(a binding.Tell) {
	if a.Volume != nil {
		c.teller.tell(a.Volume, a.Volume.UID, a.Finding)
		return
	}
	c.teller.tell(a.Claim, a.Claim.UID, a.Finding)
}

// observe notes how a run saw the claim, and tells the claim how it ended.
func (c *Controller) observe(_ binding.Key, r *run, end next, _ time.Duration) {
	c.wake(c.ledger.ended(r.Snapshot))
	if r.Claim == nil {
		return
	}
	if end.Because().Reason == verdict.ClaimBound {
		c.teller.forget(r.Claim.UID)
		return
	}
	if _, waits := end.(verdict.Wait[binding.Action]); waits {
		c.teller.tellWaiting(r.Claim, r.Claim.UID, end.Because())
		return
	}
	c.teller.tell(r.Claim, r.Claim.UID, end.Because())
}
