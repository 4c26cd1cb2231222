package protection

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// Key is one object: one that was created again under its name is another.
type Key struct {
	types.NamespacedName
	UID types.UID
}

func keyOf(o client.Object) Key { return Key{client.ObjectKeyFromObject(o), o.GetUID()} }

type queue = workqueue.TypedRateLimitingInterface[Key]

// see reads the object from memory. The zero value, which is nil, is for one that is gone, or from which the finalizer was taken and
// is not shown as such yet.
func see[T client.Object](ctx context.Context, cached client.Reader, f *finalizer, key Key, into T) (T, error) {
	var none T
	found, err := kube.Get(ctx, cached, key.NamespacedName, into)
	switch {
	case err != nil:
		return none, err
	case any(found) == any(none) || found.GetUID() != key.UID:
		f.forget(key.UID)
		return none, nil
	case f.had(key.UID) && slices.Contains(found.GetFinalizers(), f.name): // the view is old
		return none, nil
	}
	return found, nil
}

// addTo registers a controller with its wake-ups.
func addTo[K comparable](mgr manager.Manager, name string, workers int, task crreconcile.TypedReconciler[K], wakeUps ...source.TypedSource[K]) error {
	ctrl, err := controller.NewTyped(name, mgr, controller.TypedOptions[K]{
		Reconciler: task, MaxConcurrentReconciles: workers, NewQueue: reconcile.NewQueue[K],
	})
	if err != nil {
		return fmt.Errorf("controller %s: %w", name, err)
	}
	for _, wakeUp := range wakeUps {
		if err := ctrl.Watch(wakeUp); err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
	}
	return nil
}

// changes wakes up for objects of which wants is true, and for those that are gone, so that nothing is remembered of them. The end of
// one object and the creation of another under its name can come as one update (8.30, k/k#80475).
func changes[T client.Object](wants func(T) bool) handler.TypedEventHandler[T, Key] {
	return handler.TypedFuncs[T, Key]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { enqueue(e.Object, wants, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				q.Add(keyOf(e.ObjectOld))
			}
			enqueue(e.ObjectNew, wants, q)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) { q.Add(keyOf(e.Object)) },
	}
}

func enqueue[T client.Object](o T, wants func(T) bool, q queue) {
	if wants(o) {
		q.Add(keyOf(o))
	}
}
