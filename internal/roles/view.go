package roles

import (
	"context"
	"errors"
	"sync"

	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// view is what the managers of two roles in one process see together: one watch of each kind, and each object in memory once. The
// controllers make it, since their trim keeps what both need; it lives until both managers have ended, so that neither drains on an
// old view.
type view struct {
	ctx  context.Context //nolint:containedctx // the life of the view, which is neither manager's
	stop context.CancelFunc

	made   chan struct{} // closed when there is a cache
	cache  ctrlcache.Cache
	run    sync.Once
	ended  chan struct{} // closed when the cache has ended
	failed error         // valid then
}

func newView(ctx context.Context) *view {
	v := &view{made: make(chan struct{}), ended: make(chan struct{})}
	v.ctx, v.stop = context.WithCancel(context.WithoutCancel(ctx))
	return v
}

// make is a cache.NewCacheFunc for the controllers. It is called once.
func (v *view) make(api *rest.Config, options ctrlcache.Options) (ctrlcache.Cache, error) {
	cache, err := ctrlcache.New(api, options)
	if err != nil {
		return nil, err
	}
	v.cache = cache
	close(v.made)
	return glance{cache, v}, nil
}

// share is a cache.NewCacheFunc for the provisioner. It waits for the controllers' until ctx ends.
func (v *view) share(ctx context.Context) ctrlcache.NewCacheFunc {
	return func(*rest.Config, ctrlcache.Options) (ctrlcache.Cache, error) {
		select {
		case <-v.made:
			return glance{v.cache, v}, nil
		case <-ctx.Done():
			return nil, errors.Join(errors.New("the controllers have not begun"), ctx.Err())
		}
	}
}

// close ends the watches, if there are any, and returns when they have ended.
func (v *view) close() {
	v.stop()
	v.run.Do(func() { close(v.ended) })
	<-v.ended
}

// glance is the cache of one manager.
type glance struct {
	ctrlcache.Cache
	view *view
}

// Start implements cache.Cache. The first manager starts the watches; for each, they last as long as it wants them.
func (s glance) Start(ctx context.Context) error {
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
