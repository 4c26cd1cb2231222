package roles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubernetes-csi/csi-lib-utils/metrics"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/purser-csi/purser/internal/controllers/handoff"
	provisioning "github.com/purser-csi/purser/internal/controllers/provision"
	reclaiming "github.com/purser-csi/purser/internal/controllers/reclaim"
	"github.com/purser-csi/purser/internal/controllers/volumelock"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/core/reclaim"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
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
	api, err := p.config("purser-csi-provisioner/" + p.Version)
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
		registry: cmp.Or(p.beside.registry, prometheus.NewRegistry()), lock: &atomic.Pointer[watchedLock]{},
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

// startLogging gives the role its logger, and the libraries too unless it is one of several in the process.
func startLogging(ctx context.Context, given logr.Logger, cfg *logsapi.LoggingConfiguration) (context.Context, error) {
	if given.GetSink() != nil {
		return logr.NewContext(ctx, given), nil
	}
	if err := logsapi.ValidateAndApply(cfg, nil); err != nil {
		return nil, UsageError{fmt.Errorf("logging: %w", err)}
	}
	log := klog.Background()
	ctrllog.SetLogger(log)
	return logr.NewContext(ctx, log), nil
}

// startLogging tells what the command line made worth telling, too.
func (p *Provisioner) startLogging(ctx context.Context) (context.Context, error) {
	ctx, err := startLogging(ctx, p.Log, p.Logging)
	if err != nil {
		return nil, err
	}
	log := logr.FromContextOrDiscard(ctx)
	for _, n := range p.notices.lines {
		log.Info("the flag is deprecated or not supported", "flag", n.flag, "effect", n.text)
	}
	if p.AutoMaxProcs { // F-54; without the flag, the runtime does so unless the environment says otherwise (EN-7)
		runtime.SetDefaultGOMAXPROCS()
	}
	return ctx, nil
}

// drainTime is how long calls in flight may take when the process is asked to end: as long as the driver may take for one, and
// the write that follows.
func (p *Provisioner) drainTime() time.Duration {
	return max(20*time.Second, p.longestCall()+5*time.Second)
}

// createTimeout and deleteTimeout are how long one call may take (U-29).
func (p *Provisioner) createTimeout() time.Duration { return cmp.Or(p.CreateTimeout, p.Timeout) }
func (p *Provisioner) deleteTimeout() time.Duration { return cmp.Or(p.DeleteTimeout, p.Timeout) }

// deleteWorkers are the calls that delete under way at once (U-21).
func (p *Provisioner) deleteWorkers() int { return int(cmp.Or(p.DeleteWorkers, p.Workers)) }

func (p *Provisioner) longestCall() time.Duration { return max(p.createTimeout(), p.deleteTimeout()) }

// leaseName is that of the lease for the driver (LK-1, U-57).
func (p *Provisioner) leaseName(driver string) string { return cmp.Or(p.LeaseName, leaseName(driver)) }

func (w *wiring) manager(ctx context.Context) (manager.Manager, error) {
	name := w.role.leaseName(w.driver.Name)
	lock, err := w.role.Election.newLock(w.api, name, w.events)
	if err != nil {
		return nil, err
	}
	lock.slow = telemetry.NewCounter(w.registry, telemetry.MetricSlowPath).WithLabelValues(name).Inc
	w.lock.Store(lock)
	cfg := managerConfig{
		api: w.api, trim: kube.Trim, drain: w.role.drainTime(),
		election: &w.role.Election, lease: name, lock: lock, release: w.role.Gates.Enabled(GateReleaseLeaseOnShutdown),
	}
	if w.role.view != nil {
		cfg.newCache = w.role.view.share(ctx)
	}
	return newManager(ctx, cfg)
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
	volumes, underWay := kube.NewOwnWrites[*corev1.PersistentVolume](), &volumelock.Locks{}
	settings := reconcile.Settings{
		Workers: int(w.role.Workers), Backoff: reconcile.Backoff{First: w.role.RetryStart, Most: w.role.RetryMax}, Clock: clock.RealClock{},
		Events: w.events, Decided: measures.Decisions,
	}
	given, err := w.attend()
	if err != nil {
		return err
	}
	deleting := settings
	deleting.Workers = w.role.deleteWorkers()
	reclaims := reclaiming.New(reclaiming.Config{
		Cached: w.mgr.GetClient(), Live: w.mgr.GetAPIReader(), Writer: w.mgr.GetClient(), Volumes: volumes, CSI: w.conn.Controller(), Calls: underWay,
		Driver: reclaim.Driver{Name: w.driver.Name, Controller: w.driver.Controller}, Deletions: telemetry.NewDeletions(w.registry),
		DropProtection: w.role.DropProtection, Timeout: w.role.deleteTimeout(), InFlight: measures.InFlight, Settings: deleting,
	})
	claims := provisioning.New(provisioning.Config{
		Cached: w.mgr.GetClient(), Live: w.mgr.GetAPIReader(), Writer: w.mgr.GetClient(),
		Volumes: volumes, Journal: journal, HandedOver: given, Sharing: reclaims.Sharing, CSI: w.conn.Controller(), Calls: underWay,
		Driver: provision.Driver{
			Name: w.driver.Name, Plugin: w.driver.Plugin, Controller: w.driver.Controller, HasTopology: w.topology(),
			MultiWriters: w.driver.Controller[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER],
		},
		Options: w.role.options(w.driver.Name), Provisions: telemetry.NewProvisions(w.registry),
		Timeout: w.role.createTimeout(), Discard: w.role.deleteTimeout(), InFlight: measures.InFlight, Settings: settings,
	})
	if err := errors.Join(claims.AddTo(ctx, w.mgr), reclaims.AddTo(ctx, w.mgr)); err != nil {
		return err
	}
	telemetry.NewOldest(w.registry, claims.Oldest)
	return errors.Join(w.audit(ctx, journal), tellStarted(w.mgr, w.role.Started))
}

// attend is where the binder in this process leaves claims, if it does: as long as this provisioner works.
func (w *wiring) attend() (provisioning.HandedOver, error) {
	desk := w.role.Desk
	if desk == nil {
		return nil, nil
	}
	return desk, w.mgr.Add(handoff.Registration{Queue: desk, Driver: w.driver.Name})
}

func (p *Provisioner) options(driver string) provision.Options {
	return provision.Options{
		NamePrefix: p.NamePrefix, NameUUIDLength: p.NameUUIDLength, NameTemplate: p.NameTemplate, DefaultFSType: p.DefaultFSType, MinVolumeSize: p.MinVolumeSize,
		ExtraCreateMetadata: p.ExtraMetadata, ControllerPublishReadOnly: p.PublishRO,
		DriverMetadata: p.DriverMetadata, VolumeMetadata: p.VolumeMetadata,
		Identity: fmt.Sprintf("%d-%d-%s", time.Now().UnixMilli(), rand.IntN(10_000), driver), //nolint:gosec // ST-9: it is no secret
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
