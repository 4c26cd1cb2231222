package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	logsapi "k8s.io/component-base/logs/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/purser-csi/purser/internal/controllers/volumelock"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Config is the configuration that all sidecar roles share. A role embeds it and adds its own
// settings.
type Config struct {
	Version string
	Log     logr.Logger // overrides the logging flags when set, for roles inside of `plane` and `up`
	Started func()      // is called once the caches are filled and the lease is held; may be nil

	process.APIAccess
	Connection
	process.HTTPSettings
	Election     process.Election
	LeaseName    string // empty for upstream's name
	AutoMaxProcs bool
	Logging      *logsapi.LoggingConfiguration

	// Locks are those of the driver's volumes, shared with other roles of the process; nil for locks
	// of this role alone.
	Locks   *volumelock.Locks
	Beside  process.Colocated      // another role in the same process, as in `plane`
	Given   func(flag string) bool // reports whether the command line sets the flag
	Notices *cli.Notices           // warnings about the command line, logged at the start
}

// NewConfig returns a configuration with the defaults that are no flags.
func NewConfig() Config {
	c := Config{Logging: logsapi.NewLoggingConfiguration(), Notices: &cli.Notices{}}
	c.Election.Holder = process.NewIdentity()
	return c
}

// ValidateShared lists the mistakes in the settings that all sidecars share (CL-9).
func (c *Config) ValidateShared() []error {
	errs := append(c.Connection.Validate(), c.APIAccess.Validate()...)
	errs = append(errs, c.HTTPSettings.Validate(c.Notices)...)
	errs = append(errs, cli.ValidateLogging(c.Logging)...)
	return append(errs, c.Election.Validate()...)
}

// Role is what one sidecar role adds to the shared parts.
type Role struct {
	Name        string                     // of the role, such as csi-provisioner; part of the user agent
	Lease       func(driver string) string // name of the lease, unless --leader-election-lease-name gives one
	EventSource func(driver string) string // component of the events
	Trim        toolscache.TransformFunc   // which fields the cache keeps
	Drain       time.Duration              // for calls in flight when the process is asked to end
	KeepLease   bool                       // do not release the lease at the end
	// upstream's role may not write events, so the election only logs
	NoEvents    bool
	Permissions Permissions                           // checked and logged at the start; nil for no check
	Add         func(context.Context, *Sidecar) error // adds the controllers to the manager
}

// Permissions returns what the role needs for the driver that was found.
type Permissions func(context.Context, *Sidecar) (process.PermissionCheck, error)

// Sidecar holds the parts that the controllers of a sidecar role are built from.
type Sidecar struct {
	Config   *Config
	API      *rest.Config
	Conn     *csirpc.Conn
	Driver   csirpc.Description
	Manager  manager.Manager
	Events   *kube.Events
	Registry *prometheus.Registry // of this run; the libraries use the global one

	Role Role
	http *process.HTTPServer
	more []*kube.Events // of the roles that were added to this one
	lock atomic.Pointer[process.ElectionLock]
}

// Run runs one sidecar role until ctx ends. The order of the start is upstream's where it is
// visible (ST-1 to ST-15), except that HTTP is served from the start.
func Run(ctx context.Context, c *Config, role Role) error {
	ctx, err := c.StartLogging(ctx)
	if err != nil {
		return err
	}
	api, err := c.Config("purser-" + role.Name + "/" + c.Version)
	if err != nil {
		return err
	}
	calls := csirpc.NewCallMetrics()
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: c.CSIAddress, Timeout: c.Timeout, Metrics: calls})
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &Sidecar{
		Config: c, API: api, Conn: conn, Role: role, Registry: cmp.Or(c.Beside.Registry, prometheus.NewRegistry()),
	}
	if err := s.serve(ctx, prometheus.Gatherers{ctrlmetrics.Registry, calls, s.Registry}); err != nil {
		return err
	}
	defer s.http.Stop()
	if s.Driver, err = c.meet(ctx, conn); err != nil {
		return err
	}
	return s.run(ctx)
}

// StartLogging sets up the logs and logs the warnings about the command line.
func (c *Config) StartLogging(ctx context.Context) (context.Context, error) {
	ctx, err := process.StartLogging(ctx, c.Log, c.Logging)
	if err != nil {
		return nil, err
	}
	c.Notices.LogTo(logr.FromContextOrDiscard(ctx))
	if c.AutoMaxProcs { // F-54; without the flag, the runtime does so unless the environment says otherwise (EN-7)
		runtime.SetDefaultGOMAXPROCS()
	}
	return ctx, nil
}

// serve starts the HTTP server. Parts that have not started yet are not ready.
func (s *Sidecar) serve(ctx context.Context, measures prometheus.Gatherer) error {
	c := s.Config
	cfg := c.ServerConfig(measures)
	if c.Election.Enabled && c.HTTPEndpoint != "" { // HT-2, F-52
		cfg.Leader = s.renewing
	}
	s.http = process.NewHTTPServer(cfg)
	if c.Beside.Ready != nil {
		s.http.SetCheck(c.Beside.Name, c.Beside.Ready)
	}
	s.http.SetCheck("driver", process.NotYet("the driver has not answered yet"))
	s.http.SetCheck("cache", process.NotYet("waiting for the driver"))
	return c.Listen(ctx, s.http)
}

// renewing returns an error when a lease that this process holds is not renewed.
func (s *Sidecar) renewing() error {
	var errs []error
	if lock := s.lock.Load(); lock != nil {
		errs = append(errs, lock.Healthy())
	}
	if s.Config.Beside.Renewing != nil {
		errs = append(errs, s.Config.Beside.Renewing())
	}
	return errors.Join(errs...)
}

// run builds the manager and its controllers and runs them. The driver has answered.
func (s *Sidecar) run(ctx context.Context) error {
	var err error
	dropped := telemetry.NewCounter(s.Registry, telemetry.MetricEventsDropped).WithLabelValues()
	s.Config.CountThrottle(s.Registry)
	s.Events, err = kube.NewEvents(ctx, kube.EventsConfig{
		API: s.API, Component: s.Role.EventSource(s.Driver.Name), Dropped: dropped.Inc,
	})
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	defer s.closeEvents()
	if s.Manager, err = s.newManager(ctx); err != nil {
		return err
	}
	if err := s.Role.Add(ctx, s); err != nil {
		return err
	}
	if err := errors.Join(process.OnStarted(s.Manager, s.Config.Started), process.SaveMemory(s.Manager)); err != nil {
		return err
	}
	monitor := connectionMonitor{
		settings:       &s.Config.Connection,
		conn:           s.Conn,
		driver:         s.Driver,
		terminationLog: terminationLog,
	}
	if err := errors.Join(s.Manager.Add(s.http), s.Manager.Add(monitor)); err != nil {
		return err
	}
	s.http.SetCheck("driver", s.Conn.Probe)
	s.http.SetCheck("cache", func(ctx context.Context) error { return process.CacheSynced(ctx, s.Manager) })
	if s.Role.Permissions != nil {
		defer process.RunBeside(ctx, func(ctx context.Context) {
			process.CheckPermissions(ctx, s.API, func() (process.PermissionCheck, error) { return s.Role.Permissions(ctx, s) })
		})()
	}
	return process.RunUntilLeaseLost(ctx, s.Manager)
}

func (s *Sidecar) closeEvents() {
	for _, events := range append(s.more, s.Events) {
		events.Close()
	}
}

// eventsOf returns an event recorder with another source, for a role that is added to this one. It
// is closed with the sidecar.
func (s *Sidecar) eventsOf(ctx context.Context, source string) (*kube.Events, error) {
	events, err := kube.NewEvents(ctx, kube.EventsConfig{
		API: s.API, Component: source,
		Dropped: telemetry.NewCounter(s.Registry, telemetry.MetricEventsDropped).WithLabelValues().Inc,
	})
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	s.more = append(s.more, events)
	return events, nil
}

func (s *Sidecar) newManager(ctx context.Context) (manager.Manager, error) {
	name := s.LeaseName()
	var recorder resourcelock.EventRecorder // nil for no events
	if !s.Role.NoEvents {
		recorder = s.Events
	}
	lock, err := s.Config.Election.NewLock(s.API, name, recorder)
	if err != nil {
		return nil, err
	}
	lock.Slow = telemetry.NewCounter(s.Registry, telemetry.MetricSlowPath).WithLabelValues(name).Inc
	s.lock.Store(lock)
	cfg := process.ManagerConfig{
		API: s.API, Trim: s.Role.Trim, Drain: s.Role.Drain,
		Election: &s.Config.Election, Lease: name, Lock: lock, Release: !s.Role.KeepLease,
	}
	if s.Config.Cache != nil {
		cfg.NewCache = s.Config.Cache.Share(ctx)
	}
	return process.NewManager(ctx, cfg)
}

// LeaseName returns the name of the lease for the driver (LK-1, U-57).
func (s *Sidecar) LeaseName() string {
	return cmp.Or(s.Config.LeaseName, s.Role.Lease(s.Driver.Name))
}
