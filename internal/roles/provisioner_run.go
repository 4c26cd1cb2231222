package roles

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubernetes-csi/csi-lib-utils/metrics"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/purser-csi/purser/internal/controllers/loop"
	provisioning "github.com/purser-csi/purser/internal/controllers/provision"
	reclaiming "github.com/purser-csi/purser/internal/controllers/reclaim"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/core/reclaim"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/telemetry"

	"github.com/container-storage-interface/spec/lib/go/csi"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
)

// Run implements role. The order is upstream's where one can see it (ST-1 to ST-15), except that HTTP is served from the start.
func (p *Provisioner) Run(ctx context.Context) error {
	ctx, err := p.startLogging(ctx)
	if err != nil {
		return err
	}
	api, err := p.restConfig()
	if err != nil {
		return err
	}
	calls := metrics.NewCSIMetricsManagerWithOptions("unknown-driver", metrics.WithProcessStartTime(false), metrics.WithSubsystem(metrics.SubsystemSidecar))
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: p.CSIAddress, Timeout: p.Timeout, Metrics: calls})
	if err != nil {
		return err
	}
	defer conn.Close()
	w := wiring{
		role: p, api: api, conn: conn, holder: p.Election.Identity(),
		registry: prometheus.NewRegistry(), lock: &atomic.Pointer[watchedLock]{},
	}
	if err := w.serve(ctx, prometheus.Gatherers{ctrlmetrics.Registry, calls.GetRegistry(), w.registry}); err != nil {
		return err
	}
	defer w.http.stop()
	if w.driver, err = p.meet(ctx, conn); err != nil {
		return err
	}
	calls.SetDriverName(w.driver.Name)
	return w.run(ctx)
}

// startLogging puts the logger into the context and gives it to the libraries. Then it tells what the command line made worth
// telling.
func (p *Provisioner) startLogging(ctx context.Context) (context.Context, error) {
	log := p.Log
	if log.GetSink() == nil {
		if err := logsapi.ValidateAndApply(p.Logging, nil); err != nil {
			return nil, UsageError{fmt.Errorf("logging: %w", err)}
		}
		log = klog.Background()
		ctrllog.SetLogger(log)
	}
	for _, n := range p.notices.lines {
		log.Info("the flag is deprecated or not supported", "flag", n.flag, "effect", n.text)
	}
	if p.AutoMaxProcs { // F-54; without the flag, the runtime does so unless the environment says otherwise (EN-7)
		runtime.SetDefaultGOMAXPROCS()
	}
	return logr.NewContext(ctx, log), nil
}

// restConfig finds the API server: KUBECONFIG wins over the flag (EN-1), and without either it is the cluster around us.
func (p *Provisioner) restConfig() (*rest.Config, error) {
	api := p.API
	if api == nil {
		path := p.Kubeconfig
		if env := os.Getenv("KUBECONFIG"); env != "" {
			path = env
		}
		var err error
		if api, err = clientcmd.BuildConfigFromFlags(p.Master, path); err != nil {
			return nil, fmt.Errorf("api server: %w; give --kubeconfig when not running in a cluster", err)
		}
	}
	api = rest.CopyConfig(api)
	api.UserAgent = "purser-csi-provisioner/" + p.Version
	api.QPS, api.Burst = p.KubeAPIQPS, p.KubeAPIBurst
	switch {
	case api.QPS == 0:
		api.QPS = -1 // no limit of our own
	case api.Burst == 0:
		api.Burst = int(2*api.QPS) + 1
	}
	return api, nil
}

// drainTime is how long calls in flight may take when the process is asked to end: as long as the driver may take for one, and
// the write that follows.
func (p *Provisioner) drainTime() time.Duration { return max(20*time.Second, p.Timeout+5*time.Second) }

func (w *wiring) manager(ctx context.Context) (manager.Manager, error) {
	name := leaseName(w.driver.Name)
	lock, err := w.role.Election.newLock(w.api, name, w.events)
	if err != nil {
		return nil, err
	}
	lock.slow = telemetry.NewCounter(w.registry, telemetry.MetricSlowPath).WithLabelValues(name).Inc
	w.lock.Store(lock)
	mgr, err := manager.New(w.api, manager.Options{
		Scheme:                  kube.NewScheme(),
		Logger:                  logr.FromContextOrDiscard(ctx),
		Cache:                   ctrlcache.Options{DefaultTransform: kube.Trim, DefaultUnsafeDisableDeepCopy: new(false)},
		Metrics:                 metricsserver.Options{BindAddress: "0"}, // served by our own endpoint
		GracefulShutdownTimeout: new(w.role.drainTime()),
		Controller:              config.Controller{SkipNameValidation: new(true)},

		LeaderElection:                      w.role.Election.Enabled,
		LeaderElectionID:                    name, // the label of its metrics
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       w.role.Gates.Enabled(GateReleaseLeaseOnShutdown),
		LeaseDuration:                       &w.role.Election.LeaseDuration,
		RenewDeadline:                       &w.role.Election.RenewDeadline,
		RetryPeriod:                         &w.role.Election.RetryPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("api server at %s: %w", w.api.Host, err)
	}
	return mgr, nil
}

// wiring holds the parts while the controllers are put together.
type wiring struct {
	role     *Provisioner
	api      *rest.Config
	mgr      manager.Manager
	conn     *csirpc.Conn
	driver   csirpc.Description
	events   *kube.Events
	http     *httpServer
	registry *prometheus.Registry // of this run; the libraries have one of the process
	lock     *atomic.Pointer[watchedLock]
	holder   string // of leases; no two processes have the same
}

func (w *wiring) controllers(ctx context.Context) error {
	journal, err := w.journal()
	if err != nil {
		return err
	}
	measures := telemetry.NewMetrics(w.registry, journal.Len)
	volumes := kube.NewRecent[*corev1.PersistentVolume]()
	backoff := loop.Backoff{First: w.role.RetryStart, Most: w.role.RetryMax}
	claims := provisioning.New(provisioning.Config{
		Cached: w.mgr.GetClient(), Live: w.mgr.GetAPIReader(), Writer: w.mgr.GetClient(),
		Volumes: volumes, Journal: journal, CSI: w.conn.Controller(),
		Driver: provision.Driver{
			Name: w.driver.Name, Plugin: w.driver.Plugin, Controller: w.driver.Controller, HasTopology: w.topology(),
			MultiWriters: w.driver.Controller[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER],
		},
		Options: w.role.options(w.driver.Name), Provisions: telemetry.NewProvisions(w.registry),
		Timeout: w.role.Timeout, Workers: int(w.role.Workers), Backoff: backoff, Clock: clock.RealClock{},
		Events: w.events, Decided: measures.Decisions, InFlight: measures.InFlight,
	})
	if err := claims.AddTo(ctx, w.mgr); err != nil {
		return err
	}
	telemetry.NewOldest(w.registry, claims.Oldest)
	reclaims := reclaiming.New(reclaiming.Config{
		Cached: w.mgr.GetClient(), Live: w.mgr.GetAPIReader(), Writer: w.mgr.GetClient(), Volumes: volumes, CSI: w.conn.Controller(),
		Driver: reclaim.Driver{Name: w.driver.Name, Controller: w.driver.Controller}, Deletions: telemetry.NewDeletions(w.registry),
		Timeout: w.role.Timeout, Workers: int(w.role.Workers), Backoff: backoff, Clock: clock.RealClock{},
		Events: w.events, Decided: measures.Decisions, InFlight: measures.InFlight,
	})
	if err := reclaims.AddTo(ctx, w.mgr); err != nil {
		return err
	}
	return errors.Join(w.audit(ctx), w.tellStarted())
}

// tellStarted says when the caches are warm and the lease, where there is one, is held.
func (w *wiring) tellStarted() error {
	if w.role.Started == nil {
		return nil
	}
	return w.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if w.mgr.GetCache().WaitForCacheSync(ctx) {
			w.role.Started()
		}
		return nil
	}))
}

func (p *Provisioner) options(driver string) provision.Options {
	return provision.Options{
		NamePrefix: p.NamePrefix, NameUUIDLength: p.NameUUIDLength, DefaultFSType: p.DefaultFSType, MinVolumeSize: p.MinVolumeSize,
		ExtraCreateMetadata: p.ExtraMetadata, ControllerPublishReadOnly: p.PublishRO,
		Identity: fmt.Sprintf("%d-%d-%s", time.Now().UnixMilli(), os.Getpid(), driver), // ST-9
	}
}

// eventSource is the same after a restart (H-41).
func eventSource(driver string) string {
	host, err := os.Hostname()
	if err != nil {
		return driver
	}
	return driver + "_" + host
}
