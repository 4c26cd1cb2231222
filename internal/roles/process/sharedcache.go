package process

import (
	"context"
	"errors"
	"sync"

	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// SharedCache is one informer cache for the managers of two roles in one process: one watch of each
// kind, and each object in memory once. The controllers make it, since their trim keeps the fields
// that both need. It runs until both managers have ended, so that neither drains with a stale
// cache.
type SharedCache struct {
	ctx  context.Context //nolint:containedctx // the lifetime of the cache, longer than that of either manager
	stop context.CancelFunc

	made   chan struct{} // closed when there is a cache
	cache  ctrlcache.Cache
	run    sync.Once
	ended  chan struct{} // closed when the cache has ended
	failed error         // valid then
}

// NewSharedCache returns one without a cache; the first manager makes it.
func NewSharedCache(ctx context.Context) *SharedCache {
	v := &SharedCache{made: make(chan struct{}), ended: make(chan struct{})}
	v.ctx, v.stop = context.WithCancel(context.WithoutCancel(ctx))
	return v
}

// Make is a cache.NewCacheFunc for the controllers. It is called once.
func (v *SharedCache) Make(api *rest.Config, options ctrlcache.Options) (ctrlcache.Cache, error) {
	cache, err := ctrlcache.New(api, options)
	if err != nil {
		return nil, err
	}
	v.cache = cache
	close(v.made)
	return managerCache{cache, v}, nil
}

// Share is a cache.NewCacheFunc for the provisioner. It waits until the controllers have made the
// cache, or ctx ends.
func (v *SharedCache) Share(ctx context.Context) ctrlcache.NewCacheFunc {
	return func(*rest.Config, ctrlcache.Options) (ctrlcache.Cache, error) {
		select {
		case <-v.made:
			return managerCache{v.cache, v}, nil
		case <-ctx.Done():
			return nil, errors.Join(errors.New("the controllers have not begun"), ctx.Err())
		}
	}
}

// Close ends the watches, if there are any, and returns when they have ended.
func (v *SharedCache) Close() {
	v.stop()
	v.run.Do(func() { close(v.ended) })
	<-v.ended
}

// managerCache is the cache of one manager.
type managerCache struct {
	ctrlcache.Cache
	view *SharedCache
}

// Start implements cache.Cache. The first manager starts the watches, and Start returns when the
// context of its manager ends.
func (s managerCache) Start(ctx context.Context) error {
	v := s.view
	v.run.Do(func() {
		go func() {
			defer close(v.ended)
			v.failed = v.cache.Start(v.ctx)
		}()
	})
	select {
	case <-ctx.Done():
		return nil
	case <-v.ended:
		return v.failed
	}
}
