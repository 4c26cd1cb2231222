package reconcile

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// putOffFor is how long a key waits before it is looked at again. Nothing is read for that.
const putOffFor = time.Second

// PutOff returns the reconciler that begins no run while crowded returns true: the keys come again. A run
// has a deadline, so that it must not wait for what many others wait for.
func PutOff[K comparable](next reconcile.TypedReconciler[K], crowded func() bool) reconcile.TypedReconciler[K] {
	return reconcile.TypedFunc[K](func(ctx context.Context, key K) (reconcile.Result, error) {
		if crowded() {
			return reconcile.Result{RequeueAfter: putOffFor}, nil
		}
		return next.Reconcile(ctx, key)
	})
}
