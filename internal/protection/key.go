package protection

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// Key is one object. An object that was created again under its name has another key.
type Key = kube.Key

func keyOf(o client.Object) Key { return kube.KeyOf(o) }

type queue = workqueue.TypedRateLimitingInterface[Key]

// changes enqueues objects of which wants is true, and those that are gone, so that what is
// remembered of them is dropped.
func changes[T client.Object](wants func(T) bool) handler.TypedEventHandler[T, Key] {
	return reconcile.OnChange(func(_ context.Context, c reconcile.Change[T], q queue) {
		if c.IsDeleted() {
			q.Add(keyOf(c.Old))
			return
		}
		enqueue(c.New, wants, q)
	})
}

func enqueue[T client.Object](o T, wants func(T) bool, q queue) {
	if wants(o) {
		q.Add(keyOf(o))
	}
}
