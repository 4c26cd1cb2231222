package kube

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Prewarm starts the informers of these kinds with the cache, before this process is the leader. The
// controllers add their event handlers when they start as the leader, and find a filled cache. A
// handler added earlier would enqueue every key into a queue without workers.
func Prewarm(ctx context.Context, c cache.Cache, kinds ...client.Object) error {
	for _, kind := range kinds {
		if _, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}
