package reconcile

import (
	"context"
	"maps"
	"sync"

	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// LanesConfig is what [NewLanes] needs.
type LanesConfig[K, L comparable] struct {
	Reconciler crreconcile.TypedReconciler[K]
	// Lane returns the lane of a key. It may differ from the lane of the run before.
	Lane func(context.Context, K) L
	// Most is the number of runs that a lane has at the same time, at least 1.
	Most int
	// Enqueue adds a key to the queue of the controller.
	Enqueue func(K)
}

// Lanes bounds the runs of each lane, so that slow calls of one do not take the workers of the
// others. A key whose lane is full holds no worker: it is enqueued again when a run of the lane ends.
// Invariant: a key waits only while all places of its lane are taken.
type Lanes[K, L comparable] struct {
	LanesConfig[K, L]

	mu      sync.Mutex
	running map[L]int
	waits   map[K]L   // the lane in which a key waits
	waiting map[L][]K // in the order of their arrival; one that does not wait in the lane any more is left out
}

// NewLanes returns lanes without runs.
func NewLanes[K, L comparable](cfg LanesConfig[K, L]) *Lanes[K, L] {
	return &Lanes[K, L]{LanesConfig: cfg, running: map[L]int{}, waits: map[K]L{}, waiting: map[L][]K{}}
}

// Reconcile implements reconcile.TypedReconciler.
func (l *Lanes[K, L]) Reconcile(ctx context.Context, key K) (crreconcile.Result, error) {
	lane := l.Lane(ctx, key)
	if !l.enter(lane, key) {
		return crreconcile.Result{}, nil
	}
	defer l.leave(lane)
	return l.Reconciler.Reconcile(ctx, key)
}

func (l *Lanes[K, L]) enter(lane L, key K) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.refill() // the key may have been given a place in another lane, which is free again
	if l.running[lane] < l.Most {
		delete(l.waits, key)
		l.running[lane]++
		return true
	}
	if of, waits := l.waits[key]; !waits || of != lane {
		l.waits[key], l.waiting[lane] = lane, append(l.waiting[lane], key)
	}
	return false
}

func (l *Lanes[K, L]) leave(lane L) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[lane]--; l.running[lane] == 0 {
		delete(l.running, lane)
	}
	l.refill()
}

// refill enqueues keys that wait for lanes with free places. The caller holds mu.
func (l *Lanes[K, L]) refill() {
	for lane, keys := range l.waiting {
		for free := l.Most - l.running[lane]; free > 0 && len(keys) > 0; keys = keys[1:] {
			if of, waits := l.waits[keys[0]]; waits && of == lane {
				delete(l.waits, keys[0])
				l.Enqueue(keys[0])
				free--
			}
		}
		l.waiting[lane] = keys
	}
	maps.DeleteFunc(l.waiting, func(_ L, keys []K) bool { return len(keys) == 0 })
}
