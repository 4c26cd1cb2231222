package kube

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Before returns the manager with a cache whose events reach the overlay before the handlers that are
// added to its informers, and whose indexes the overlay knows. Else a handler may enqueue a key for an
// object that is gone while the overlay, which has not got that event yet, still shows this process's last
// write to it; and no other event would enqueue the key again.
func (o *Overlay) Before(mgr manager.Manager) manager.Manager {
	return orderedManager{mgr, &orderedCache{Cache: mgr.GetCache(), overlay: o, fans: map[cache.Informer]*fan{}}}
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

	mu   sync.Mutex
	fans map[cache.Informer]*fan // a new one for each call if the cache is limited to several namespaces
}

// GetInformer implements cache.Informers.
func (c *orderedCache) GetInformer(
	ctx context.Context, of client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, of, opts...)
	if err != nil {
		return nil, err
	}
	return c.fanOf(informer), nil
}

// GetInformerForKind implements cache.Informers.
func (c *orderedCache) GetInformerForKind(
	ctx context.Context, of schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.Cache.GetInformerForKind(ctx, of, opts...)
	if err != nil {
		return nil, err
	}
	return c.fanOf(informer), nil
}

func (c *orderedCache) fanOf(informer cache.Informer) *fan {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.fans[informer]
	if f == nil {
		f = &fan{Informer: informer, view: c.overlay.ownView, overlay: c.overlay.handler()}
		c.fans[informer] = f
	}
	return f
}

// IndexField implements client.FieldIndexer.
func (c *orderedCache) IndexField(ctx context.Context, of client.Object, field string, by client.IndexerFunc) error {
	c.overlay.Index(Index{Kind: of, Field: field, Values: by})
	return c.Cache.IndexField(ctx, of, field, by)
}
