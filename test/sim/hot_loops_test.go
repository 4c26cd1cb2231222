package sim

import (
	"fmt"
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/reconcile"
)

// mostPerSecond is how often within a second of virtual time a process may make the same request, a
// driver may get the same call, and a controller may act for the same reason on the same key.
// Five runs in a row are normal, each may write twice, and a change by a user begins a new row.
const mostPerSecond = 30

// rates is when each thing was done lately. It is safe for concurrent use.
type rates struct {
	mu     sync.Mutex
	recent map[any]*[mostPerSecond]time.Time // a ring
	next   map[any]int
}

func newRates() rates {
	return rates{recent: map[any]*[mostPerSecond]time.Time{}, next: map[any]int{}}
}

// add counts what is done now. It reports whether it is done too often.
func (r *rates) add(what any) (tooOften bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ring := r.recent[what]
	if ring == nil {
		ring = &[mostPerSecond]time.Time{}
		r.recent[what] = ring
	}
	at, now := r.next[what], time.Now()
	oldest := ring[at]
	ring[at], r.next[what] = now, (at+1)%mostPerSecond
	return !oldest.IsZero() && now.Sub(oldest) <= time.Second
}

// acted is one kind of run of a controller.
type acted struct {
	process    int
	controller string
	key        any
	reason     string
}

// doing checks that nothing is done in a hot loop. The run ends when it is. Two leaders may undo each other's
// work until one of them learns that it does not lead any more.
func (w *world) doing(what any) {
	if w.rates.add(what) && !w.processes.hasTwoLeaders() {
		w.violate("I5: a hot loop: more than %d times in a second: %s", mostPerSecond, describeDone(what))
		w.processes.abort()
	}
}

func describeDone(what any) string {
	if run, is := what.(acted); is {
		return fmt.Sprintf("process %d, controller %s of %v acts for %s", run.process, run.controller, run.key, run.reason)
	}
	return fmt.Sprint(what)
}

// waits reports whether a wait of the process goes on: the process has not ended.
func (p *process) waits() bool { return !p.isDead() && p.ctx.Err() == nil }

// ran checks a run of a controller.
func (p *process) ran(run reconcile.Run) {
	if p.isDead() {
		return
	}
	if run.Acted != "" {
		p.world.doing(acted{p.number, run.Controller, run.Key, string(run.Acted)})
	}
	p.world.silences.observe(p.number, p.waits, run)
}
