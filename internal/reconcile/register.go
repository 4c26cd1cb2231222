package reconcile

import (
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// APITimeout is the deadline of a run that only talks to the API server. A run that calls a driver
// adds the timeout of that call.
const APITimeout = 30 * time.Second

// Queue is the work queue that event handlers add keys to.
type Queue[K comparable] = workqueue.TypedRateLimitingInterface[K]

// Registration is a controller as [Register] adds it to a manager.
type Registration[K comparable] struct {
	Name       string // of the controller and of its work queue
	Workers    int    // keys that are worked on at once
	Reconciler reconcile.TypedReconciler[K]
	Sources    []source.TypedSource[K] // what enqueues keys
	// RateLimiter is the backoff of a reconciler that returns errors, which a [Loop] never does; nil
	// for the default of controller-runtime.
	RateLimiter workqueue.TypedRateLimiter[K]
	// NewQueue makes the work queue; nil for [NewQueue].
	NewQueue func(name string, limiter workqueue.TypedRateLimiter[K]) workqueue.TypedRateLimitingInterface[K]
	// Warmup starts the sources before the process has the lease; nil for the manager's default.
	Warmup *bool
	// Watch is set to a function that adds a source to the controller, which may run already; nil for
	// a controller that knows all its sources.
	Watch *func(source.TypedSource[K]) error
}

// Register adds a controller to a manager.
func Register[K comparable](mgr manager.Manager, r Registration[K]) error {
	if r.NewQueue == nil {
		r.NewQueue = NewQueue[K]
	}
	ctrl, err := controller.NewTyped(r.Name, mgr, controller.TypedOptions[K]{
		Reconciler: r.Reconciler, MaxConcurrentReconciles: r.Workers, RateLimiter: r.RateLimiter,
		EnableWarmup: r.Warmup,
		NewQueue:     r.NewQueue,
	})
	if err != nil {
		return fmt.Errorf("controller %s: %w", r.Name, err)
	}
	if r.Watch != nil {
		*r.Watch = ctrl.Watch
	}
	for _, s := range r.Sources {
		if err := ctrl.Watch(withName(r.Name, s)); err != nil {
			return fmt.Errorf("controller %s: %w", r.Name, err)
		}
	}
	return nil
}

// namedSource is a source that is a function, with a name for the log instead of its address.
type namedSource[K comparable] struct {
	source.TypedSource[K]
	of string
}

// String implements fmt.Stringer.
func (s namedSource[K]) String() string { return "own source of " + s.of }

func withName[K comparable](controller string, s source.TypedSource[K]) source.TypedSource[K] {
	if _, ok := s.(source.TypedFunc[K]); ok {
		return namedSource[K]{s, controller}
	}
	return s
}
