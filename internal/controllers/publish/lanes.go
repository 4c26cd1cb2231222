package publish

import (
	"context"
	"sync"

	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// lanes bounds the runs of one kind, attach or detach, so that slow calls of one kind do not take
// all workers from the other. A key for which its lane has no place is enqueued again when a run of
// the lane ends; it holds no worker meanwhile.
type lanes struct {
	crreconcile.TypedReconciler[string]
	*Controller

	mu      sync.Mutex
	running [2]int
	waiting [2][]string
}

// lane is the kind of a run.
type lane int

const (
	attaching lane = iota
	detaching
)

// Reconcile implements reconcile.TypedReconciler.
func (l *lanes) Reconcile(ctx context.Context, name string) (crreconcile.Result, error) {
	of := attaching
	if va, err := l.read(ctx, name); err == nil && va != nil && va.DeletionTimestamp != nil {
		of = detaching
	}
	if !l.enter(of, name) {
		return crreconcile.Result{}, nil
	}
	defer l.leave(of)
	return l.TypedReconciler.Reconcile(ctx, name)
}

func (l *lanes) enter(of lane, name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[of] >= l.Workers {
		l.waiting[of] = append(l.waiting[of], name)
		return false
	}
	l.running[of]++
	return true
}

func (l *lanes) leave(of lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[of]--
	if len(l.waiting[of]) > 0 {
		l.enqueueAgain(l.waiting[of][0])
		l.waiting[of] = l.waiting[of][1:]
	}
}

func (l *lanes) enqueueAgain(name string) {
	l.handed.mu.Lock()
	defer l.handed.mu.Unlock()
	if l.handed.queue != nil {
		l.handed.queue.Add(name)
	}
}
