package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/purser-csi/purser/internal/controllers/statemetrics"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/telemetry"
)

// builder holds the parts while the role controllers is put together.
type builder struct {
	role     *Controllers
	api      *rest.Config
	mgr      manager.Manager
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
	return process.RunUntilLeaseLost(ctx, b.mgr)
}

// Ready returns nil when the caches of the controllers have synced.
func (c *Controllers) Ready(ctx context.Context) error {
	web := c.ready.Load()
	if web == nil {
		return errors.New("not started yet")
	}
	return web.CheckAll(ctx)
}

// Renewing returns an error when the controllers lead and do not renew their lease (HT-2).
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
	trim, err := b.trim(logr.FromContextOrDiscard(ctx))
	if err != nil {
		return err
	}
	lock.Slow = telemetry.NewCounter(b.registry, telemetry.MetricSlowPath).WithLabelValues(Lease).Inc
	cfg := process.ManagerConfig{
		API: b.api, Trim: trim, Drain: drainTime,
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

// recorder returns a recorder of events for one component. Each controller has the component of its
// upstream counterpart.
func (b *builder) recorder(ctx context.Context, component string) (*kube.Events, error) {
	events, err := kube.NewEvents(
		ctx,
		kube.EventsConfig{API: b.api, Component: component, Dropped: b.dropped},
	)
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

// add builds the enabled controllers and adds them to the manager.
func (b *builder) add(ctx context.Context) error {
	enabled, err := b.role.enabledControllers()
	if err != nil {
		return err
	}
	parts := registry.Parts{
		Manager: b.mgr,
		Metrics: b.registry,
		Queue:   b.role.Queue, Attachments: b.role.Attachments,
		Settings: b.settings,
		ClaimProtection: slices.ContainsFunc(enabled, func(c registry.Controller) bool {
			return c.Name == registry.NameClaimProtection
		}),
	}
	if !b.role.KeepInUse {
		parts.ForceDetachAfter = b.role.ForceDetachAfter
	}
	for _, c := range enabled {
		if !b.isServed(c) {
			logr.FromContextOrDiscard(ctx).Info(c.Absent, "controller", c.Name)
			continue
		}
		events, err := b.recorder(ctx, c.Component)
		if err == nil {
			err = c.Add(ctx, parts, events)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

// isServed reports whether the API server serves the kind that the controller needs: older ones do
// not, and it can be switched off.
func (b *builder) isServed(c registry.Controller) bool {
	if c.Needs.Empty() {
		return true
	}
	_, err := b.mgr.GetRESTMapper().RESTMapping(c.Needs.GroupKind(), c.Needs.Version)
	return !meta.IsNoMatchError(err)
}

// enabledControllers returns the entries of the controllers that run.
func (c *Controllers) enabledControllers() ([]registry.Controller, error) {
	on, err := c.Enabled()
	var enabled []registry.Controller
	for _, one := range registry.All() {
		if on[one.Name] {
			enabled = append(enabled, one)
		}
	}
	return enabled, err
}

// trim returns the cache transform, which keeps the fields that the controllers read.
func (b *builder) trim(log logr.Logger) (toolscache.TransformFunc, error) {
	enabled, err := b.role.enabledControllers()
	foreign := kube.ForeignBinders{Manager: managerName, Since: time.Now(), Found: func(manager, claim string) {
		b.foreign.WithLabelValues(manager).Inc()
		log.Error(nil, "another program binds claims too; switch one of the two off",
			"writer", manager, telemetry.KeyClaim, claim)
	}}
	return kube.DetectForeignBinders(foreign, registry.Trim(enabled, b.role.OthersRead...)), err
}

// managerName is the field manager of this role's writes: the user agent up to the first slash.
const managerName = "purser-controllers"

// wantedPermissions returns the permissions that the enabled controllers need.
func (b *builder) wantedPermissions() ([]process.Permission, error) {
	enabled, err := b.role.enabledControllers()
	wanted := registry.Permissions(enabled)
	if b.role.Election.Enabled {
		for _, verb := range []string{"get", "create", "update"} {
			wanted = append(
				wanted,
				process.Permission{
					Namespace: b.role.Election.LeaseNamespace(),
					Group:     "coordination.k8s.io",
					Resource:  "leases",
					Verb:      verb,
				},
			)
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
