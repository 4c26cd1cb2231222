package reconcile

import (
	"context"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Change is one event of the informer cache. Old is the zero value, which is nil, for an object that
// was created; New is nil for one that was deleted.
type Change[T client.Object] struct{ Old, New T }

// IsCreated reports whether the object was not there before.
func (c Change[T]) IsCreated() bool { return isNil(c.Old) }

// IsDeleted reports whether the object is gone.
func (c Change[T]) IsDeleted() bool { return isNil(c.New) }

// Object returns the object as it is, or as it was if it is gone.
func (c Change[T]) Object() T {
	if c.IsDeleted() {
		return c.Old
	}
	return c.New
}

func isNil[T client.Object](o T) bool {
	var none T
	return client.Object(o) == client.Object(none)
}

// OnChange returns an event handler that passes each change to enqueue.
//
// An informer whose watch was interrupted can report the deletion of one object and the creation of
// another under its name as one update (8.30, k/k#80475). The handler passes such an update as two
// changes: the deletion, then the creation.
func OnChange[T client.Object, K comparable](
	enqueue func(ctx context.Context, c Change[T], q Queue[K]),
) handler.TypedEventHandler[T, K] {
	return handler.TypedFuncs[T, K]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[T], q Queue[K]) {
			enqueue(ctx, Change[T]{New: e.Object}, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[T], q Queue[K]) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				enqueue(ctx, Change[T]{Old: e.ObjectOld}, q)
				enqueue(ctx, Change[T]{New: e.ObjectNew}, q)
				return
			}
			enqueue(ctx, Change[T]{Old: e.ObjectOld, New: e.ObjectNew}, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], q Queue[K]) {
			enqueue(ctx, Change[T]{Old: e.Object}, q)
		},
	}
}

// OnDelete returns an event handler that enqueues the keys that a deleted object leads to, also
// where an update hides the deletion; see [OnChange].
func OnDelete[T client.Object, K comparable](keys func(ctx context.Context, o T) []K) handler.TypedEventHandler[T, K] {
	return OnChange(func(ctx context.Context, c Change[T], q Queue[K]) {
		if !c.IsDeleted() {
			return
		}
		for _, key := range keys(ctx, c.Old) {
			q.Add(key)
		}
	})
}

// InformerHandler returns a handler for an informer itself, for state that must follow the cache in
// order. It unwraps tombstones. It passes an update that replaces the object as one change.
func InformerHandler[T client.Object](seen func(Change[T])) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(in any) {
			if o, ok := in.(T); ok {
				seen(Change[T]{New: o})
			}
		},
		UpdateFunc: func(old, in any) {
			was, okOld := old.(T)
			o, okNew := in.(T)
			if okOld && okNew {
				seen(Change[T]{Old: was, New: o})
			}
		},
		DeleteFunc: func(in any) {
			if o, ok := Unwrap[T](in); ok {
				seen(Change[T]{Old: o})
			}
		},
	}
}

// Unwrap returns the object of an informer's deletion event, which is inside of a tombstone when the
// watch missed the deletion. ok is false for an object of another type.
func Unwrap[T client.Object](in any) (o T, ok bool) {
	if tombstone, missed := in.(toolscache.DeletedFinalStateUnknown); missed {
		in = tombstone.Obj
	}
	o, ok = in.(T)
	return o, ok
}
