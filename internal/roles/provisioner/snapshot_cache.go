package provisioner

import (
	"context"
	"fmt"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/purser-csi/purser/internal/kube"
)

// snapshotCache is the informer cache of the kinds that a restore reads, and the API server until their
// first lists have come. The informers start after those of the manager, which no controller waits for:
// custom resources that cannot be listed must not keep all other claims from being provisioned.
type snapshotCache struct {
	client.Reader // the API server

	synced   client.Reader
	cached   *kube.Overlay
	all      cache.Cache
	kinds    []client.Object
	isSynced atomic.Bool
}

func newSnapshotCache(cached *kube.Overlay, mgr manager.Manager, kinds []client.Object) *snapshotCache {
	live := mgr.GetAPIReader()
	return &snapshotCache{
		Reader: live, synced: kube.ByKind(cached, live, kinds...), cached: cached, all: mgr.GetCache(), kinds: kinds,
	}
}

// Start implements manager.Runnable.
func (c *snapshotCache) Start(ctx context.Context) error {
	if err := c.cached.Watch(ctx, c.all, c.kinds...); err != nil {
		return fmt.Errorf("cache snapshots: %w", err)
	}
	var synced []toolscache.InformerSynced
	for _, kind := range c.kinds {
		informer, err := c.all.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("cache snapshots: %w", err)
		}
		synced = append(synced, informer.HasSynced)
	}
	if toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		c.isSynced.Store(true)
	}
	<-ctx.Done()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a process that waits for its lease has a
// full cache.
func (*snapshotCache) NeedLeaderElection() bool { return false }

// Get implements client.Reader.
func (c *snapshotCache) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption,
) error {
	if c.isSynced.Load() {
		return c.synced.Get(ctx, key, into, opts...)
	}
	return c.Reader.Get(ctx, key, into, opts...)
}
