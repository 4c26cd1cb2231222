package controllers

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
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/telemetry"
)

// builder holds the parts while the role controllers is put together.
type builder struct {
	role     *Controllers
	api      *rest.Config
	mgr      manager.Manager
	binding  client.Client // writes objects whole where it may
	http     *process.HTTPServer
	registry *prometheus.Registry
	decided  *prometheus.CounterVec
	foreign  *prometheus.CounterVec
	dropped  func()
	events   []*kube.Events
}

// Run implements role.
func (c *Controllers) Run(ctx context.Context) error {
	ctx, err := process.StartLogging(ctx, c.Log, c.Logging)
	if err != nil {
		return err
	}
	b := builder{role: c, registry: c.Registry}
	if b.api, err = c.Config(managerName + "/" + c.Version); err != nil {
		return err
	}
	b.decided = telemetry.NewCounter(b.registry, telemetry.MetricDecisions)
	b.foreign = telemetry.NewCounter(b.registry, telemetry.MetricForeignBinders)
	c.CountThrottle(b.registry)
	b.dropped = telemetry.NewCounter(b.registry, telemetry.MetricEventsDropped).WithLabelValues().Inc
	if err := b.serve(ctx); err != nil {
		return err
	}
	defer b.http.Stop()
	defer func() {
		for _, e := range b.events {
			e.Close()
		}
	}()
	if err := b.assemble(ctx); err != nil {
		return err
	}
	defer process.RunBeside(ctx, b.checkPermissions)()
	return b.mgr.Start(ctx)
}

// Ready is nil when the controllers have seen all objects.
func (c *Controllers) Ready(ctx context.Context) error {
	web := c.ready.Load()
	if web == nil {
		return errors.New("not started yet")
	}
	return web.CheckAll(ctx)
}

// Renewing is an error when the controllers lead and do not renew their lease (HT-2).
func (c *Controllers) Renewing() error {
	if lock := c.lock.Load(); lock != nil {
		return lock.Healthy()
	}
	return nil
}

func (b *builder) serve(ctx context.Context) error {
	cfg := b.role.ServerConfig(prometheus.Gatherers{ctrlmetrics.Registry, b.registry})
	if b.role.Election.Enabled {
		cfg.Leader = b.role.Renewing
	}
	b.http = process.NewHTTPServer(cfg)
	b.http.SetCheck("cache", process.NotYet("the first list of objects is not complete"))
	b.role.ready.Store(b.http)
	return b.role.Listen(ctx, b.http)
}

// drainTime is for the API requests in flight when the process is asked to end.
const drainTime = 20 * time.Second

func (b *builder) assemble(ctx context.Context) error {
	electing, err := b.recorder(ctx, Lease)
	if err != nil {
		return err
	}
	lock, err := b.role.Election.NewLock(b.api, Lease, electing)
	if err != nil {
		return err
	}
	lock.Slow = telemetry.NewCounter(b.registry, telemetry.MetricSlowPath).WithLabelValues(Lease).Inc
	cfg := process.ManagerConfig{
		API: b.api, Trim: b.trim(logr.FromContextOrDiscard(ctx)), Drain: drainTime,
		Election: &b.role.Election, Lease: Lease, Lock: lock, Release: true,
	}
	if b.role.Cache != nil {
		cfg.NewCache = b.role.Cache.Make
	}
	b.role.lock.Store(lock)
	b.mgr, err = process.NewManager(ctx, cfg)
	if err != nil {
		return err
	}
	if b.binding, err = process.NewWholeWriter(b.mgr, b.api); err != nil {
		return err
	}
	if err := b.add(ctx); err != nil {
		return err
	}
	b.registry.MustRegister(statemetrics.New(b.mgr.GetCache(), b.mgr.Elected()))
	if err := process.SaveMemory(b.mgr); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	if err := b.mgr.Add(b.http); err != nil {
		return fmt.Errorf("http endpoint: %w", err)
	}
	b.http.SetCheck("cache", func(ctx context.Context) error { return process.CacheSynced(ctx, b.mgr) })
	return process.OnStarted(b.mgr, b.role.Started)
}

// recorder writes events of one component; each controller has upstream's.
func (b *builder) recorder(ctx context.Context, component string) (*kube.Events, error) {
	events, err := kube.NewEvents(ctx, kube.EventsConfig{API: b.api, Component: component, Dropped: b.dropped, Traffic: b.role.Traffic})
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	b.events = append(b.events, events)
	return events, nil
}

func (b *builder) settings(events reconcile.Recorder) reconcile.Settings {
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
func (b *builder) add(ctx context.Context) error {
	on, err := b.role.Enabled()
	if err != nil {
		return err
	}
	for _, r := range b.registrations() {
		if !on[r.name] || r.name == NameClassProtection && !b.hasAttributesClasses(ctx) {
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
func (b *builder) hasAttributesClasses(ctx context.Context) bool {
	kind := storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass")
	_, err := b.mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if !meta.IsNoMatchError(err) {
		return true
	}
	logr.FromContextOrDiscard(ctx).Info("the API server does not serve VolumeAttributesClasses, which therefore are not protected", "controller", NameClassProtection)
	return false
}

func (b *builder) registrations() []registration {
	return []registration{
		{NameBinder, "persistentvolume-controller", func(ctx context.Context, events reconcile.Recorder) error {
			return b.binder(events).AddTo(ctx, b.mgr)
		}},
		{NameClaimProtection, "pvc-protection-controller", func(ctx context.Context, events reconcile.Recorder) error {
			cfg := b.protection(events)
			return errors.Join(protection.NewClaims(cfg).AddTo(ctx, b.mgr), protection.NewUnused(cfg).AddTo(ctx, b.mgr))
		}},
		{NameVolumeProtection, "pv-protection-controller", func(ctx context.Context, events reconcile.Recorder) error {
			return protection.NewVolumes(b.protection(events)).AddTo(ctx, b.mgr)
		}},
		{NameClassProtection, "volumeattributesclass-protection-controller", func(ctx context.Context, events reconcile.Recorder) error {
			return protection.NewClasses(b.protection(events)).AddTo(ctx, b.mgr)
		}},
		{NameExpand, "volume_expand", func(ctx context.Context, events reconcile.Recorder) error {
			return expand.New(expand.Config{
				Cached: b.mgr.GetClient(), Writer: b.mgr.GetClient(), Settings: b.settings(events),
			}).AddTo(ctx, b.mgr)
		}},
		{NameEphemeral, "ephemeral_volume", func(ctx context.Context, events reconcile.Recorder) error {
			return ephemeral.New(ephemeral.Config{
				Cached: b.mgr.GetClient(), Live: b.mgr.GetAPIReader(), Writer: b.mgr.GetClient(),
				Created: telemetry.NewEphemeral(b.registry), Settings: b.settings(events),
			}).AddTo(ctx, b.mgr)
		}},
	}
}

func (b *builder) binder(events reconcile.Recorder) *binder.Controller {
	cfg := binder.Config{
		Live: b.mgr.GetAPIReader(), Writer: b.binding, Settings: b.settings(events), Measures: telemetry.NewBinding(b.registry), AuditEvery: binder.DefaultAudit,
	}
	queue := b.role.Queue
	if queue == nil {
		return binder.New(cfg)
	}
	cfg.HandOver = queue
	controller := binder.New(cfg)
	queue.OnChange(controller.Recheck)
	return controller
}

func (b *builder) protection(events reconcile.Recorder) protection.Config {
	cfg := protection.Config{
		Cached: b.mgr.GetClient(), Live: b.mgr.GetAPIReader(), Writer: b.binding, Status: b.mgr.GetClient().Status(), Settings: b.settings(events),
	}
	if b.role.Queue != nil {
		cfg.Together = b.role.Queue.Drivers
	}
	return cfg
}

// trim keeps of each object what the controllers read.
func (b *builder) trim(log logr.Logger) toolscache.TransformFunc {
	trim := kube.TrimForBinding
	if b.role.Cache != nil {
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
func (b *builder) wantedPermissions() ([]process.Permission, error) {
	on, err := b.role.Enabled()
	wanted := controllerPermissions(on)
	if b.role.Election.Enabled {
		for _, verb := range []string{"get", "create", "update"} {
			wanted = append(wanted, process.Permission{Namespace: b.role.Election.LeaseNamespace(), Group: "coordination.k8s.io", Resource: "leases", Verb: verb})
		}
	}
	return wanted, err
}

func (b *builder) checkPermissions(ctx context.Context) {
	process.CheckPermissions(ctx, b.api, func() (process.PermissionCheck, error) {
		wanted, err := b.wantedPermissions()
		return process.PermissionCheck{Role: "controllers", Wanted: wanted}, err
	})
}
