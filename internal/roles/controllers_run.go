package roles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/purser-csi/purser/internal/controllers/binder"
	"github.com/purser-csi/purser/internal/controllers/ephemeral"
	"github.com/purser-csi/purser/internal/controllers/expand"
	"github.com/purser-csi/purser/internal/controllers/protection"
	"github.com/purser-csi/purser/internal/controllers/statemetrics"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// bench holds the parts while the role controllers is put together.
type bench struct {
	role     *Controllers
	api      *rest.Config
	mgr      manager.Manager
	binding  client.Client // writes objects whole where it may
	http     *httpServer
	registry *prometheus.Registry
	decided  *prometheus.CounterVec
	foreign  *prometheus.CounterVec
	dropped  func()
	events   []*kube.Events
}

// Run implements role.
func (c *Controllers) Run(ctx context.Context) error {
	ctx, err := startLogging(ctx, c.Log, c.Logging)
	if err != nil {
		return err
	}
	b := bench{role: c, registry: c.registry}
	if b.api, err = c.config(managerName + "/" + c.Version); err != nil {
		return err
	}
	b.decided = telemetry.NewCounter(b.registry, telemetry.MetricDecisions)
	b.foreign = telemetry.NewCounter(b.registry, telemetry.MetricForeignBinders)
	c.countThrottle(b.registry)
	b.dropped = telemetry.NewCounter(b.registry, telemetry.MetricEventsDropped).WithLabelValues().Inc
	if err := b.serve(ctx); err != nil {
		return err
	}
	defer b.http.stop()
	defer func() {
		for _, e := range b.events {
			e.Close()
		}
	}()
	if err := b.assemble(ctx); err != nil {
		return err
	}
	defer alongside(ctx, b.checkPermissions)()
	return b.mgr.Start(ctx)
}

// Ready is nil when the controllers have seen all objects.
func (c *Controllers) Ready(ctx context.Context) error {
	web := c.ready.Load()
	if web == nil {
		return errors.New("not started yet")
	}
	return web.check(ctx)
}

// renewing is an error when the controllers lead and do not renew their lease (HT-2).
func (c *Controllers) renewing() error {
	if lock := c.lock.Load(); lock != nil {
		return lock.healthy()
	}
	return nil
}

func (b *bench) serve(ctx context.Context) error {
	cfg := httpConfig{
		Address: b.role.HTTPEndpoint, MetricsPath: b.role.MetricsPath, Pprof: b.role.Pprof,
		Metrics: prometheus.Gatherers{ctrlmetrics.Registry, b.registry},
	}
	if b.role.Election.Enabled {
		cfg.Leader = b.role.renewing
	}
	b.http = newHTTPServer(cfg)
	b.http.setCheck("cache", notYet("the first list of objects is not complete"))
	b.role.ready.Store(b.http)
	if cfg.Address == "" {
		return nil
	}
	where, err := b.http.start(ctx)
	if err == nil && b.role.listened != nil {
		b.role.listened(where)
	}
	return err
}

// drainTime is for the requests that are under way when the process is asked to end.
const controllersDrain = 20 * time.Second

func (b *bench) assemble(ctx context.Context) error {
	electing, err := b.recorder(ctx, controllersLease)
	if err != nil {
		return err
	}
	lock, err := b.role.Election.newLock(b.api, controllersLease, electing)
	if err != nil {
		return err
	}
	lock.slow = telemetry.NewCounter(b.registry, telemetry.MetricSlowPath).WithLabelValues(controllersLease).Inc
	cfg := managerConfig{
		api: b.api, trim: b.trim(logr.FromContextOrDiscard(ctx)), drain: controllersDrain,
		election: &b.role.Election, lease: controllersLease, lock: lock, release: true,
	}
	if b.role.view != nil {
		cfg.newCache = b.role.view.make
	}
	b.role.lock.Store(lock)
	b.mgr, err = newManager(ctx, cfg)
	if err != nil {
		return err
	}
	if b.binding, err = writesWhole(b.mgr, b.api); err != nil {
		return err
	}
	if err := b.add(ctx); err != nil {
		return err
	}
	b.registry.MustRegister(statemetrics.New(b.mgr.GetCache(), b.mgr.Elected()))
	if err := saveMemory(b.mgr); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	if err := b.mgr.Add(b.http); err != nil {
		return fmt.Errorf("http endpoint: %w", err)
	}
	b.http.setCheck("cache", func(ctx context.Context) error { return synced(ctx, b.mgr) })
	return tellStarted(b.mgr, b.role.Started)
}

// recorder writes events of one component; each controller has upstream's.
func (b *bench) recorder(ctx context.Context, component string) (*kube.Events, error) {
	events, err := kube.NewEvents(ctx, kube.EventsConfig{API: b.api, Component: component, Dropped: b.dropped, Traffic: b.role.traffic})
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	b.events = append(b.events, events)
	return events, nil
}

func (b *bench) settings(events reconcile.Recorder) reconcile.Settings {
	return reconcile.Settings{
		Workers: int(b.role.Workers), Backoff: reconcile.Backoff{First: b.role.RetryStart, Most: b.role.RetryMax},
		Clock: clock.RealClock{}, Events: events, Decided: b.decided,
	}
}

// registration is a controller that the role can run.
type registration struct {
	name      string
	component string // the source of its events, as upstream has it
	add       func(context.Context, reconcile.Recorder) error
}

// add registers the controllers that are wanted.
func (b *bench) add(ctx context.Context) error {
	on, err := b.role.enabled()
	if err != nil {
		return err
	}
	for _, r := range b.registrations() {
		if !on[r.name] || r.name == nameVACGuard && !b.hasAttributesClasses(ctx) {
			continue
		}
		events, err := b.recorder(ctx, r.component)
		if err == nil {
			err = r.add(ctx, events)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// hasAttributesClasses reports whether the API server serves VolumeAttributesClasses: older ones do not, and it can be switched off.
func (b *bench) hasAttributesClasses(ctx context.Context) bool {
	kind := storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass")
	_, err := b.mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if !meta.IsNoMatchError(err) {
		return true
	}
	logr.FromContextOrDiscard(ctx).Info("the API server does not serve VolumeAttributesClasses, which therefore are not protected", "controller", nameVACGuard)
	return false
}

func (b *bench) registrations() []registration {
	return []registration{
		{nameBinder, "persistentvolume-controller", func(ctx context.Context, events reconcile.Recorder) error {
			return b.binder(events).AddTo(ctx, b.mgr)
		}},
		{nameClaimGuard, "pvc-protection-controller", func(ctx context.Context, events reconcile.Recorder) error {
			cfg := b.protection(events)
			return errors.Join(protection.NewClaims(cfg).AddTo(ctx, b.mgr), protection.NewUnused(cfg).AddTo(ctx, b.mgr))
		}},
		{nameVolumeGuard, "pv-protection-controller", func(ctx context.Context, events reconcile.Recorder) error {
			return protection.NewVolumes(b.protection(events)).AddTo(ctx, b.mgr)
		}},
		{nameVACGuard, "volumeattributesclass-protection-controller", func(ctx context.Context, events reconcile.Recorder) error {
			return protection.NewClasses(b.protection(events)).AddTo(ctx, b.mgr)
		}},
		{nameExpander, "volume_expand", func(ctx context.Context, events reconcile.Recorder) error {
			return expand.New(expand.Config{
				Cached: b.mgr.GetClient(), Writer: b.mgr.GetClient(), Settings: b.settings(events),
			}).AddTo(ctx, b.mgr)
		}},
		{nameEphemeral, "ephemeral_volume", func(ctx context.Context, events reconcile.Recorder) error {
			return ephemeral.New(ephemeral.Config{
				Cached: b.mgr.GetClient(), Live: b.mgr.GetAPIReader(), Writer: b.mgr.GetClient(),
				Created: telemetry.NewEphemeral(b.registry), Settings: b.settings(events),
			}).AddTo(ctx, b.mgr)
		}},
	}
}

func (b *bench) binder(events reconcile.Recorder) *binder.Controller {
	cfg := binder.Config{
		Live: b.mgr.GetAPIReader(), Writer: b.binding, Settings: b.settings(events), Measures: telemetry.NewBinding(b.registry), AuditEvery: binder.DefaultAudit,
	}
	desk := b.role.Desk
	if desk == nil {
		return binder.New(cfg)
	}
	cfg.HandOver = desk
	controller := binder.New(cfg)
	desk.OnChange(controller.Recheck)
	return controller
}

func (b *bench) protection(events reconcile.Recorder) protection.Config {
	cfg := protection.Config{
		Cached: b.mgr.GetClient(), Live: b.mgr.GetAPIReader(), Writer: b.binding, Status: b.mgr.GetClient().Status(), Settings: b.settings(events),
	}
	if b.role.Desk != nil {
		cfg.Together = b.role.Desk.Drivers
	}
	return cfg
}

// trim keeps of each object what the controllers read.
func (b *bench) trim(log logr.Logger) toolscache.TransformFunc {
	trim := kube.TrimForBinding
	if b.role.view != nil {
		trim = kube.TrimForPlane
	}
	binding := trim(kube.BindingTrim{Manager: managerName, Since: time.Now(), Foreign: func(manager, claim string) {
		b.foreign.WithLabelValues(manager).Inc()
		log.Error(nil, "somebody else binds claims too; switch one of the two off", "writer", manager, telemetry.KeyClaim, claim)
	}})
	return func(in any) (any, error) {
		switch in.(type) {
		case *corev1.Pod:
			return kube.TrimPod(in)
		case *storagev1.VolumeAttributesClass:
			return kube.TrimAttributesClass(in)
		}
		return binding(in)
	}
}

// managerName is what the API server notes of our writes: the user agent up to the first slash.
const managerName = "purser-controllers"

// wantedPermissions are those that the controllers which run need.
func (b *bench) wantedPermissions() ([]permission, error) {
	on, err := b.role.enabled()
	wanted := controllerPermissions(on)
	if b.role.Election.Enabled {
		for _, verb := range []string{"get", "create", "update"} {
			wanted = append(wanted, permission{Namespace: b.role.Election.namespace(), Group: "coordination.k8s.io", Resource: "leases", Verb: verb})
		}
	}
	return wanted, err
}

func (b *bench) checkPermissions(ctx context.Context) {
	checkPermissions(ctx, b.api, "controllers", b.wantedPermissions)
}
