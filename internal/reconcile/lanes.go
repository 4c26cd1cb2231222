package reconcile

import (
	"context"
	"maps"
	"slices"
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
	waiting map[L][]K // in the order of their arrival; a key waits once
}

// NewLanes returns lanes without runs.
func NewLanes[K, L comparable](cfg LanesConfig[K, L]) *Lanes[K, L] {
	return &Lanes[K, L]{LanesConfig: cfg, running: map[L]int{}, waiting: map[L][]K{}}
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
	for of, keys := range l.waiting {
		l.waiting[of] = slices.DeleteFunc(keys, func(k K) bool { return k == key })
	}
	if l.running[lane] >= l.Most {
		l.waiting[lane] = append(l.waiting[lane], key)
		return false
	}
	l.running[lane]++
	return true
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
		n := min(l.Most-l.running[lane], len(keys))
		for _, key := range keys[:n] {
			l.Enqueue(key)
		}
		l.waiting[lane] = keys[n:]
	}
	maps.DeleteFunc(l.waiting, func(_ L, keys []K) bool { return len(keys) == 0 })
}
