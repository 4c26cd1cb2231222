package node

import (
	"context"
	"sync"

	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/purser-csi/purser/internal/core/mounting"
)

// driverLimit bounds how many volumes of one driver are worked on at once, so that a driver that
// hangs does not take the workers of the others. A volume above the bound takes no worker: it is
// enqueued again when another one of its driver is done.
type driverLimit struct {
	run     crreconcile.TypedReconciler[mounting.Key]
	most    int
	enqueue func(mounting.Key)

	mu      sync.Mutex
	busy    map[string]int
	waiting map[string][]mounting.Key
}

func limitPerDriver(
	run crreconcile.TypedReconciler[mounting.Key], most int, enqueue func(mounting.Key),
) *driverLimit {
	return &driverLimit{
		run: run, most: most, enqueue: enqueue, busy: map[string]int{}, waiting: map[string][]mounting.Key{},
	}
}

// Reconcile implements reconcile.TypedReconciler.
func (l *driverLimit) Reconcile(ctx context.Context, key mounting.Key) (crreconcile.Result, error) {
	if !l.enter(key) {
		return crreconcile.Result{}, nil
	}
	defer l.leave(key.Driver)
	return l.run.Reconcile(ctx, key)
}

func (l *driverLimit) enter(key mounting.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[key.Driver] >= l.most {
		l.waiting[key.Driver] = append(l.waiting[key.Driver], key)
		return false
	}
	l.busy[key.Driver]++
	return true
}

func (l *driverLimit) leave(driver string) {
	l.mu.Lock()
	l.busy[driver]--
	var next []mounting.Key
	if waiting := l.waiting[driver]; len(waiting) > 0 {
		next, l.waiting[driver] = waiting[:1], waiting[1:]
	}
	l.mu.Unlock()
	for _, key := range next {
		l.enqueue(key)
	}
}
