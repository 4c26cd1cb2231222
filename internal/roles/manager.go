package roles

import (
	"context"
	"fmt"
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

// managerConfig is what the managers of the roles differ in.
type managerConfig struct {
	api      *rest.Config
	trim     toolscache.TransformFunc
	newCache ctrlcache.NewCacheFunc // nil for one that is nobody else's
	drain    time.Duration          // for what is under way when the process is asked to end
	election *Election
	lease    string
	lock     *watchedLock
	release  bool // the lease at the end
}

// forever is how long a controller waits for the first list of a kind: one kind that cannot be listed, for want of a permission say,
// must not end the controllers that do not need it. /readyz says that the cache is not complete, and the log which list fails.
const forever = 365 * 24 * time.Hour

// newManager has the caches, the election and the work queues of a role. Metrics and health are served by our own endpoint.
func newManager(ctx context.Context, cfg managerConfig) (manager.Manager, error) {
	watches, err := kube.WatchClient(cfg.api)
	if err != nil {
		return nil, err
	}
	mgr, err := manager.New(cfg.api, manager.Options{
		Scheme:                  kube.Scheme(),
		Logger:                  logr.FromContextOrDiscard(ctx),
		BaseContext:             func() context.Context { return context.WithoutCancel(ctx) }, // else runnables have no logger
		NewCache:                cfg.newCache,
		Cache:                   ctrlcache.Options{HTTPClient: watches, DefaultTransform: cfg.trim, DefaultUnsafeDisableDeepCopy: new(false)},
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: new(cfg.drain),
		Controller:              config.Controller{SkipNameValidation: new(true), CacheSyncTimeout: forever},

		LeaderElection:                      cfg.election.Enabled,
		LeaderElectionID:                    cfg.lease, // the label of its metrics
		LeaderElectionResourceLockInterface: cfg.lock,
		LeaderElectionReleaseOnCancel:       cfg.release,
		LeaseDuration:                       &cfg.election.LeaseDuration,
		RenewDeadline:                       &cfg.election.RenewDeadline,
		RetryPeriod:                         &cfg.election.RetryPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("api server at %s: %w", cfg.api.Host, err)
	}
	return mgr, nil
}

// alongside does something beside a manager. Unlike a runnable of it, that does not wait for caches, which may never be warm.
func alongside(ctx context.Context, do func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var doing sync.WaitGroup
	doing.Go(func() { do(ctx) })
	return func() { cancel(); doing.Wait() }
}

// tellStarted calls started when the caches are warm and the lease, where there is one, is held.
func tellStarted(mgr manager.Manager, started func()) error {
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
