package view

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GetInformer implements cache.Informers.
func (v *View) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kindFor(o), nil
}

// GetInformerForKind is not served.
func (v *View) GetInformerForKind(
	context.Context,
	schema.GroupVersionKind,
	...cache.InformerGetOption,
) (cache.Informer, error) {
	return nil, errNotServed
}

// RemoveInformer does nothing.
func (v *View) RemoveInformer(context.Context, client.Object) error { return nil }

// WaitForCacheSync implements cache.Informers: the first list is there at once.
func (v *View) WaitForCacheSync(context.Context) bool { return true }

// IndexField implements client.FieldIndexer.
func (v *View) IndexField(_ context.Context, o client.Object, field string, by client.IndexerFunc) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kindFor(o).indexes[field] = by
	return nil
}

// AddEventHandler implements cache.Informer: the handler first gets all objects in the store.
func (k *kind) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	k.view.mu.Lock()
	have := k.snapshot()
	k.handlers = append(k.handlers, h)
	k.view.mu.Unlock()
	for _, o := range inOrder(have) {
		h.OnAdd(o, true)
	}
	return registration{}, nil
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (k *kind) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler,
	_ time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return k.AddEventHandler(h)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (k *kind) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler,
	_ toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return k.AddEventHandler(h)
}

// GetStore returns the objects for a handler that is added late.
func (k *kind) GetStore() toolscache.Store { return lister{kind: k} }

type lister struct {
	toolscache.Store
	kind *kind
}

// List implements toolscache.Store.
func (l lister) List() []any {
	l.kind.view.mu.Lock()
	have := l.kind.snapshot()
	l.kind.view.mu.Unlock()
	var objects []any
	for _, o := range inOrder(have) {
		objects = append(objects, o)
	}
	return objects
}

// RemoveEventHandler does nothing.
func (k *kind) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// AddIndexers is not served; see IndexField.
func (k *kind) AddIndexers(toolscache.Indexers) error { return errNotServed }

// HasSynced implements cache.Informer.
func (k *kind) HasSynced() bool { return true }

// HasSyncedChecker implements cache.Informer.
func (k *kind) HasSyncedChecker() toolscache.DoneChecker { return registration{}.HasSyncedChecker() }

// IsStopped implements cache.Informer.
func (k *kind) IsStopped() bool { return false }

type registration struct{}

// HasSynced returns true: the first list was delivered.
func (registration) HasSynced() bool { return true }

// HasSyncedChecker says so, too.
func (registration) HasSyncedChecker() toolscache.DoneChecker { return done{} }

type done struct{}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Name implements toolscache.DoneChecker.
func (done) Name() string { return "simulated" }

// Done implements toolscache.DoneChecker.
func (done) Done() <-chan struct{} { return closed }
