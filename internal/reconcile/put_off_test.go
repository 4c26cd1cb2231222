package reconcile

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A key is put off while it is crowded, and reconciled as soon as it comes again after that.
func TestPutOff(t *testing.T) {
	runs, isCrowded := 0, true
	next := reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) {
		runs++
		return reconcile.Result{}, nil
	})
	r := PutOff[string](next, func() bool { return isCrowded })
	if got, err := r.Reconcile(t.Context(), "a"); err != nil || runs != 0 || got.RequeueAfter != putOffFor {
		t.Errorf("%d runs, %+v, %v", runs, got, err)
	}
	isCrowded = false
	if got, err := r.Reconcile(t.Context(), "a"); err != nil || runs != 1 || got.RequeueAfter != 0 {
		t.Errorf("%d runs, %+v, %v", runs, got, err)
	}
}
