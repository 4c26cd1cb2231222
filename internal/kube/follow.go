package kube

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Prewarm has the cache watch these kinds from its start on. A controller asks for them only when
// its process has the lease, and then finds everything in memory. To be woken up before that would
// be of no use, as all that is there enqueues every key, and would fill a queue that no worker
// works on.
func Prewarm(ctx context.Context, c cache.Cache, kinds ...client.Object) error {
	for _, kind := range kinds {
		if _, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}
