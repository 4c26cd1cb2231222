package up

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/purser-csi/purser/internal/kube"
)

// statusInterval is how often the status may change on the screen.
const statusInterval = time.Second

// watchStatus sends a line whenever the state of claims and volumes differs from the last one,
// until ctx ends.
func watchStatus(ctx context.Context, api *rest.Config, driver string) (<-chan string, error) {
	cache, err := ctrlcache.New(api, ctrlcache.Options{
		Scheme: kube.Scheme(), DefaultTransform: kube.Trim, DefaultUnsafeDisableDeepCopy: new(true),
	})
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	lines := make(chan string)
	go func() { _ = cache.Start(ctx) }() // ends with ctx; without it there is no status, which is no reason to end
	go func() {
		ticker := time.NewTicker(statusInterval)
		defer ticker.Stop()
		last := ""
		for {
			if line, err := statusLine(ctx, cache, driver); err == nil && line != last {
				select {
				case lines <- line:
					last = line
				case <-ctx.Done():
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return lines, nil
}

func statusLine(ctx context.Context, cache ctrlcache.Cache, driver string) (string, error) {
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	if err := cache.List(ctx, &claims); err != nil {
		return "", fmt.Errorf("claims: %w", err)
	}
	if err := cache.List(ctx, &volumes); err != nil {
		return "", fmt.Errorf("volumes: %w", err)
	}
	bound := 0
	for i := range claims.Items {
		if claims.Items[i].Status.Phase == corev1.ClaimBound {
			bound++
		}
	}
	return fmt.Sprintf("claims: %d bound, %d pending   volumes: %d   driver: %s",
		bound, len(claims.Items)-bound, len(volumes.Items), driver), nil
}
