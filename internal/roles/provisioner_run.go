package roles

import (
	"context"
	"fmt"
	"os"
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

// Run implements role.
func (p *Provisioner) Run(ctx context.Context) error {
	ctx, err := p.startLogging(ctx)
	if err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx)
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
	driver, err := p.meet(ctx, conn)
	if err != nil {
		return err
	}
	calls.SetDriverName(driver.Name)
	log.Info("found the csi driver", telemetry.KeyDriver, driver.Name, "version", driver.Version)

	mgr, err := p.manager(log, api, driver.Name)
	if err != nil {
		return err
	}
	events, err := kube.NewEvents(ctx, api, mgr.GetScheme(), eventSource(driver.Name))
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	defer events.Close()
	w := wiring{role: p, mgr: mgr, conn: conn, driver: driver, events: events, holder: p.Election.Identity()}
	if err := w.controllers(ctx); err != nil {
		return err
	}
	if p.HTTPEndpoint != "" {
		server := newHTTPServer(p.HTTPEndpoint, p.MetricsPath, prometheus.Gatherers{ctrlmetrics.Registry, calls.GetRegistry()})
		server.ready = map[string]func(context.Context) error{
			"cache":  func(ctx context.Context) error { return synced(ctx, mgr) },
			"driver": conn.Probe,
		}
		if err := mgr.Add(server); err != nil {
			return fmt.Errorf("http endpoint: %w", err)
		}
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("csi-provisioner: %w", err)
	}
	return nil
}

// startLogging puts the logger into the context and gives it to the libraries.
func (p *Provisioner) startLogging(ctx context.Context) (context.Context, error) {
	log := p.Log
	if log.GetSink() == nil {
		if err := logsapi.ValidateAndApply(p.Logging, nil); err != nil {
			return nil, UsageError{fmt.Errorf("logging: %w", err)}
		}
		log = klog.Background()
		ctrllog.SetLogger(log)
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

// meet waits for the driver and learns who it is.
func (p *Provisioner) meet(ctx context.Context, conn *csirpc.Conn) (csirpc.Description, error) {
	log := logr.FromContextOrDiscard(ctx)
	err := conn.WaitReady(ctx, func(err error) {
		log.Info("waiting for the csi driver", "address", p.CSIAddress, "problem", err.Error())
	})
	if err != nil {
		return csirpc.Description{}, err
	}
	return conn.Describe(ctx)
}

// drainTime is how long calls in flight may take when the process is asked to end.
const drainTime = 20 * time.Second

func (p *Provisioner) manager(log logr.Logger, api *rest.Config, driver string) (manager.Manager, error) {
	mgr, err := manager.New(api, manager.Options{
		Scheme:                  kube.NewScheme(),
		Logger:                  log,
		Cache:                   ctrlcache.Options{DefaultTransform: kube.Trim, DefaultUnsafeDisableDeepCopy: new(false)},
		Metrics:                 metricsserver.Options{BindAddress: "0"}, // served by our own endpoint
		GracefulShutdownTimeout: new(drainTime),
		Controller:              config.Controller{SkipNameValidation: new(true)},

		LeaderElection:                p.Election.Enabled,
		LeaderElectionID:              leaseName(driver),
		LeaderElectionNamespace:       p.Election.namespace(),
		LeaderElectionConfig:          rest.CopyConfig(api), // its own client: a busy controller must not cost the lease
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &p.Election.LeaseDuration,
		RenewDeadline:                 &p.Election.RenewDeadline,
		RetryPeriod:                   &p.Election.RetryPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("api server at %s: %w", api.Host, err)
	}
	return mgr, nil
}

// wiring holds the parts while the controllers are put together.
type wiring struct {
	role   *Provisioner
	mgr    manager.Manager
	conn   *csirpc.Conn
	driver csirpc.Description
	events *kube.Events
	holder string // of leases; no two processes have the same
}

func (w wiring) controllers(ctx context.Context) error {
	journal, err := w.journal()
	if err != nil {
		return err
	}
	measures := telemetry.NewMetrics(ctrlmetrics.Registry, journal.Len)
	volumes := kube.NewRecent[*corev1.PersistentVolume]()
	backoff := loop.Backoff{First: w.role.RetryStart, Most: w.role.RetryMax}
	claims := provisioning.New(provisioning.Config{
		Cached: w.mgr.GetClient(), Live: w.mgr.GetAPIReader(), Writer: w.mgr.GetClient(),
		Volumes: volumes, Journal: journal, CSI: w.conn.Controller(),
		Driver: provision.Driver{
			Name: w.driver.Name, Plugin: w.driver.Plugin, Controller: w.driver.Controller, HasTopology: w.driver.HasTopology(),
			MultiWriters: w.driver.Controller[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER],
		},
		Options: w.role.options(w.driver.Name),
		Timeout: w.role.Timeout, Workers: int(w.role.Workers), Backoff: backoff, Clock: clock.RealClock{},
		Events: w.events, Decided: measures.Decisions, InFlight: measures.InFlight,
	})
	if err := claims.AddTo(ctx, w.mgr); err != nil {
		return err
	}
	reclaims := reclaiming.New(reclaiming.Config{
		Cached: w.mgr.GetClient(), Writer: w.mgr.GetClient(), Volumes: volumes, CSI: w.conn.Controller(),
		Driver:  reclaim.Driver{Name: w.driver.Name, Controller: w.driver.Controller},
		Timeout: w.role.Timeout, Workers: int(w.role.Workers), Backoff: backoff, Clock: clock.RealClock{},
		Events: w.events, Decided: measures.Decisions, InFlight: measures.InFlight,
	})
	return reclaims.AddTo(ctx, w.mgr)
}

func (p *Provisioner) options(driver string) provision.Options {
	return provision.Options{
		NamePrefix: p.NamePrefix, NameUUIDLength: p.NameUUIDLength, DefaultFSType: p.DefaultFSType,
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

func synced(ctx context.Context, mgr manager.Manager) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("the first list of objects is not complete")
	}
	return nil
}
