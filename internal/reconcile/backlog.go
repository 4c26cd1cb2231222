package reconcile

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

const (
	// backlogEvery is the time between two writes of the backlog. 50 writes a second are less than
	// a tenth of those that the controllers make for a burst of claims.
	backlogEvery = 20 * time.Millisecond
	// backlogYields is how long after an action for which a user or another component waits the
	// backlog yields. Then it uses one turn of backlogShare.
	backlogYields = time.Second
	backlogShare  = 10
	// backlogBurst is for how long turns that no object had are kept: so many objects wait for none, as
	// in a small cluster, or after a repair.
	backlogBurst = 2 * time.Second
)

// Backlog bounds the rate of writes that the start of a process causes on objects that are older
// than the process: a new finalizer, condition or annotation on each of 30,000 claims. All
// controllers of a process share one, so that the bound holds for their sum.
type Backlog struct {
	Remaining *prometheus.GaugeVec // objects that wait for their turn, by controller; nil for none

	mu     sync.Mutex
	next   time.Time // the first turn that no object has
	urgent time.Time // of the last action that is not deferrable
	turns  int       // that came while the backlog yields
}

// yield notes an action that is not deferrable.
func (b *Backlog) yield(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.urgent = now
}

// take returns zero if it is the turn of an object, else its next turn. turn is the one that it
// has; zero for none.
func (b *Backlog) take(turn, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if turn.IsZero() {
		turn = b.assign(now.Add(-backlogBurst))
	}
	if turn.After(now) {
		return turn
	}
	if b.next.After(now) && now.Sub(b.urgent) < backlogYields {
		if b.turns++; b.turns%backlogShare != 0 {
			return b.assign(now.Add(backlogEvery))
		}
	}
	return time.Time{}
}

// assign returns the first turn that no object has, not before a time. The caller holds mu.
func (b *Backlog) assign(earliest time.Time) time.Time {
	turn := b.next
	if turn.Before(earliest) {
		turn = earliest
	}
	b.next = turn.Add(backlogEvery)
	return turn
}

// deferred has the turns of the keys of one controller.
type deferred[K comparable] struct {
	mu    sync.Mutex
	turns map[K]time.Time
}

// wait returns how long the deferrable actions of a key wait; 0 for not at all.
func (d *deferred[K]) wait(b *Backlog, controller string, key K, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	turn := b.take(d.turns[key], now)
	if turn.IsZero() {
		d.remove(b, controller, key)
		return 0
	}
	if d.turns == nil {
		d.turns = map[K]time.Time{}
	}
	d.turns[key] = turn
	d.count(b, controller)
	return max(turn.Sub(now), time.Millisecond)
}

// drop removes a key that has no deferrable actions any more.
func (d *deferred[K]) drop(b *Backlog, controller string, key K) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(b, controller, key)
}

// remove removes a key. The caller holds mu.
func (d *deferred[K]) remove(b *Backlog, controller string, key K) {
	if _, waits := d.turns[key]; !waits {
		return
	}
	delete(d.turns, key)
	if len(d.turns) == 0 {
		d.turns = nil // returns the memory of a large map
	}
	d.count(b, controller)
}

func (d *deferred[K]) count(b *Backlog, controller string) {
	if b.Remaining != nil {
		b.Remaining.WithLabelValues(controller).Set(float64(len(d.turns)))
	}
}

// defers returns how long a key waits whose actions are deferrable: those about an object that is
// older than the process have their turn in the backlog.
func (l *Loop[K, S, A]) defers(key K, about About, v verdict.Verdict[A]) time.Duration {
	if l.Backlog == nil {
		return 0
	}
	now := l.Clock.Now()
	todo, acts := v.(verdict.Do[A])
	if acts && todo.Deferrable && about.created().Before(l.began) {
		return l.deferred.wait(l.Backlog, l.Name, key, now)
	}
	if acts {
		l.Backlog.yield(now)
	}
	l.deferred.drop(l.Backlog, l.Name, key)
	return 0
}

// created returns when the object was created; the zero time counts as long ago.
func (a About) created() time.Time {
	if o, ok := a.Object.(metav1.Object); ok && a.Created.IsZero() {
		return o.GetCreationTimestamp().Time
	}
	return a.Created
}
