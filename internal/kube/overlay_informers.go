package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Before returns the manager with a cache whose events reach the overlay before the handlers that are
// added to its informers, and whose indexes the overlay knows. Else a handler may enqueue a key for an
// object that is gone while the overlay, whose own handler runs beside it, still shows this process's
// last write to it; and no other event would enqueue the key again.
func (o *Overlay) Before(mgr manager.Manager) manager.Manager {
	return orderedManager{mgr, orderedCache{mgr.GetCache(), o}}
}

type orderedManager struct {
	manager.Manager
	cache cache.Cache
}

// GetCache implements manager.Manager.
func (m orderedManager) GetCache() cache.Cache { return m.cache }

// GetFieldIndexer implements manager.Manager.
func (m orderedManager) GetFieldIndexer() client.FieldIndexer { return m.cache }

type orderedCache struct {
	cache.Cache
	overlay *Overlay
}

// GetInformer implements cache.Informers.
func (c orderedCache) GetInformer(
	ctx context.Context, of client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, of, opts...)
	if err != nil {
		return nil, err
	}
	return orderedInformer{informer, c.overlay}, nil
}

// GetInformerForKind implements cache.Informers.
func (c orderedCache) GetInformerForKind(
	ctx context.Context, of schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.Cache.GetInformerForKind(ctx, of, opts...)
	if err != nil {
		return nil, err
	}
	return orderedInformer{informer, c.overlay}, nil
}

// IndexField implements client.FieldIndexer.
func (c orderedCache) IndexField(ctx context.Context, of client.Object, field string, by client.IndexerFunc) error {
	c.overlay.Index(Index{Kind: of, Field: field, Values: by})
	return c.Cache.IndexField(ctx, of, field, by)
}

type orderedInformer struct {
	cache.Informer
	overlay *Overlay
}

// AddEventHandler implements cache.Informer.
func (i orderedInformer) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(i.overlay.first(h))
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i orderedInformer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, resync time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithResyncPeriod(i.overlay.first(h), resync)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i orderedInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, opts toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithOptions(i.overlay.first(h), opts)
}

// first returns the handler with the overlay in front of it. An event that several handlers deliver
// changes nothing after the first.
func (o *Overlay) first(h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	return orderedHandler{o.handler(), h}
}

type orderedHandler struct {
	overlay, then toolscache.ResourceEventHandler
}

func (h orderedHandler) OnAdd(object any, isInInitialList bool) {
	h.overlay.OnAdd(object, isInInitialList)
	h.then.OnAdd(object, isInInitialList)
}

func (h orderedHandler) OnUpdate(before, now any) {
	h.overlay.OnUpdate(before, now)
	h.then.OnUpdate(before, now)
}

func (h orderedHandler) OnDelete(object any) {
	h.overlay.OnDelete(object)
	h.then.OnDelete(object)
}
