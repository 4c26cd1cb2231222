package process

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/purser-csi/purser/internal/kube"
)

// ManagerConfig has the settings in which the managers of the roles differ.
type ManagerConfig struct {
	API      *rest.Config
	Trim     toolscache.TransformFunc
	NewCache ctrlcache.NewCacheFunc // nil for a cache of its own
	Drain    time.Duration          // how long requests in flight may take when the process ends
	Election *Election
	Lease    string
	Lock     *ElectionLock
	Release  bool // release the lease at the end
}

// forever is how long a controller waits for its informers to sync. A kind that cannot be listed,
// for example without the permission, must not end the controllers that do not need it. /readyz
// reports that the cache has not synced, and the log has the list that fails.
const forever = 365 * 24 * time.Hour

// NewManager returns a manager with the caches, the election and the work queues of a role. Metrics
// and health are served by [HTTPServer].
func NewManager(ctx context.Context, cfg ManagerConfig) (manager.Manager, error) {
	watches, err := kube.WatchClient(cfg.API)
	if err != nil {
		return nil, err
	}
	mgr, err := manager.New(cfg.API, manager.Options{
		Scheme:      kube.Scheme(),
		Logger:      logr.FromContextOrDiscard(ctx),
		BaseContext: func() context.Context { return context.WithoutCancel(ctx) }, // else runnables have no logger
		NewCache:    cfg.NewCache,
		Cache: ctrlcache.Options{
			HTTPClient:                   watches,
			DefaultTransform:             cfg.Trim,
			DefaultUnsafeDisableDeepCopy: new(false),
		},
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: new(cfg.Drain),
		Controller:              config.Controller{SkipNameValidation: new(true), CacheSyncTimeout: forever},

		LeaderElection:                      cfg.Election.Enabled,
		LeaderElectionID:                    cfg.Lease, // the label of its metrics
		LeaderElectionResourceLockInterface: cfg.Lock,
		LeaderElectionReleaseOnCancel:       cfg.Release,
		LeaseDuration:                       &cfg.Election.LeaseDuration,
		RenewDeadline:                       &cfg.Election.RenewDeadline,
		RetryPeriod:                         &cfg.Election.RetryPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("api server at %s: %w", cfg.API.Host, err)
	}
	return mgr, nil
}

// RunWithoutCaches runs a function in parallel with a manager. Unlike a runnable of the manager, it does
// not wait for the caches, which may never sync.
func RunWithoutCaches(ctx context.Context, do func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var doing sync.WaitGroup
	doing.Go(func() { do(ctx) })
	return func() { cancel(); doing.Wait() }
}

// OnStarted calls started when the caches are warm and the lease, where there is one, is held.
func OnStarted(mgr manager.Manager, started func()) error {
	if started == nil {
		return nil
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if mgr.GetCache().WaitForCacheSync(ctx) {
			started()
		}
		return nil
	}))
}

// EventSource is the same after a restart (H-41).
func EventSource(driver string) string {
	host, err := os.Hostname()
	if err != nil {
		return driver
	}
	return driver + "_" + host
}

// CacheSynced returns an error while the first lists of the cache are not complete.
func CacheSynced(ctx context.Context, mgr manager.Manager) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("the first list of objects is not complete")
	}
	return nil
}
