package sidecar

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/telemetry/tracing"
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
	process.TraceSettings
	process.LogSettings
	Election  process.Election
	LeaseName string // empty for upstream's name

	Workers    uint // objects of one controller that are reconciled in parallel
	RetryStart time.Duration
	RetryMax   time.Duration

	// Locks are those of the driver's volumes, shared with other roles of the process; nil for
	// locks of this role alone.
	Locks *csirpc.VolumeLocks
	// Backlog bounds the writes about old objects, of all roles of the process; nil for one of this
	// role alone.
	Backlog *reconcile.Backlog
	// Spans are what the roles of the process did last; nil for those of this role alone.
	Spans *telemetry.Spans
	// Tracing makes the traces of the process; nil for what the environment says.
	Tracing    *tracing.Tracing
	Colocated  process.Colocated // another role in the same process, as in `plane`
	OthersRead []*kube.Fields    // what the roles that share the cache read besides
	Hosted     []*Common         // roles that share the connection, cache and lease of this one
	Shared     *SharedDriver     // the connection of all components of the process; nil for one of this role
	// Served is called with the HTTP server before it listens, for what other components serve; may be nil.
	Served   func(*process.HTTPServer)
	Given    func(flag string) bool // reports whether the command line sets the flag
	SayAfter time.Duration          // how long a wait may last before an event says it; 0 for a minute

	running *atomic.Pointer[Sidecar]
}

// NewConfig returns a configuration with the defaults that are no flags.
func NewConfig() Config {
	c := Config{LogSettings: process.NewLogSettings(), running: &atomic.Pointer[Sidecar]{}}
	c.Election.Holder = process.NewIdentity()
	return c
}

// ValidateShared lists the mistakes in the settings that all roles share (CL-9).
func (c *Config) ValidateShared() []error {
	errs := append(c.APIAccess.Validate(), c.HTTPSettings.Validate(c.Notices)...)
	errs = append(errs, cli.ValidateLogging(c.Logging)...)
	return append(errs, c.Election.Validate()...)
}

// ValidatePace lists the mistakes in the workers and delays.
func (c *Config) ValidatePace(workersFlag string) []error {
	return []error{
		cli.Need(c.Workers > 0, "--%s=0: must be at least 1, or nothing is worked on", workersFlag),
		cli.Need(c.RetryStart > 0, "--retry-interval-start=%s: must be more than 0", c.RetryStart),
		cli.Need(c.RetryMax >= c.RetryStart,
			"--retry-interval-max=%s: must not be less than --retry-interval-start=%s", c.RetryMax, c.RetryStart),
	}
}

// Ready returns nil when the role has started and its caches have synced.
func (c *Config) Ready(ctx context.Context) error {
	if s := c.running.Load(); s != nil {
		return s.http.CheckAll(ctx)
	}
	return errors.New("not started yet")
}

// Renewing returns an error when the role leads and does not renew its lease (HT-2).
func (c *Config) Renewing() error {
	if s := c.running.Load(); s != nil {
		return s.renewing()
	}
	return nil
}

// SharedDriver is a connection to a driver with the measures of its calls.
type SharedDriver struct {
	Conn  *csirpc.Conn
	Calls *csirpc.CallMetrics
}

// NewSharedDriver prepares a connection for all components of a process. The caller closes it.
func (c *Config) NewSharedDriver(role string) (*SharedDriver, error) {
	c.Spans = cmp.Or(c.Spans, telemetry.NewSpans(rand.Text()))
	calls := csirpc.NewCallMetrics()
	conn, err := csirpc.Dial(csirpc.Config{
		Endpoint: c.CSIAddress, Timeout: c.Timeout, Metrics: calls, Observe: called(c.Spans, role),
		Trace: c.Tracing.Client(),
	})
	return &SharedDriver{Conn: conn, Calls: calls}, err
}

// Role is what one role adds to the shared parts.
type Role struct {
	Name        string                     // of the role, such as csi-provisioner; part of the user agent
	NoDriver    bool                       // the role calls no driver
	Lease       func(driver string) string // name of the lease, unless --leader-election-lease-name gives one
	NamedLease  bool                       // the manifest of the role gives only the lease of this name
	EventSource func(driver string) string // component of the events
	Drain       time.Duration              // for calls in flight when the process is asked to end
	KeepLease   bool                       // do not release the lease at the end
	// upstream's role may not write events, so the election only logs
	NoEvents bool
	// Table lists the controllers of the role for the driver and the flags.
	Table Table
	// Trim changes the cache transform that follows from the table; nil for no change.
	Trim func(context.Context, *Sidecar, toolscache.TransformFunc) toolscache.TransformFunc
	// NewCache makes a cache of only some objects; nil for all.
	NewCache ctrlcache.NewCacheFunc
	// Begin is called before the controllers are added; may be nil.
	Begin func(context.Context, *Sidecar) error
	// Check adds permissions that depend on the objects of the cluster; may be nil.
	Check func(context.Context, *Sidecar, *process.PermissionCheck)
}

// Table lists the controllers of a role. Of a [NothingToDo] error, the role has no controllers.
type Table func(context.Context, *Sidecar) ([]registry.Controller, error)

// Sidecar holds the parts that the controllers of a sidecar role are built from.
type Sidecar struct {
	Config  *Config
	API     *rest.Config
	Conn    *csirpc.Conn
	Driver  csirpc.Description
	Manager manager.Manager
	// Cached is the manager's cache with the writes of Writer laid over it. All controllers of the
	// manager share both.
	Cached   *kube.Overlay
	Writer   client.Client
	Events   *kube.Events
	Registry *prometheus.Registry // of this run; the libraries use the global one

	Role   Role
	http   *process.HTTPServer
	lock   atomic.Pointer[process.ElectionLock]
	tables []*table // of the role and the hosted ones
}

// Run runs one role until ctx ends. The order of the start is upstream's where it is visible (ST-1
// to ST-15), except that HTTP is served from the start.
func Run(ctx context.Context, c *Config, role Role) error {
	ctx, err := c.StartLogging(ctx, c.Log)
	if err != nil {
		return err
	}
	api, err := c.Config("purser-" + role.Name + "/" + c.Version)
	if err != nil {
		return err
	}
	c.Locks = cmp.Or(c.Locks, &csirpc.VolumeLocks{})
	s := &Sidecar{
		Config: c, API: api, Role: role, Registry: cmp.Or(c.Colocated.Registry, prometheus.NewRegistry()),
	}
	if c.Backlog == nil {
		c.Backlog = &reconcile.Backlog{Remaining: telemetry.NewGauge(s.Registry, telemetry.MetricBacklog)}
	}
	c.Spans = cmp.Or(c.Spans, telemetry.NewSpans(rand.Text()))
	if c.Tracing == nil {
		var stop func()
		c.Tracing, stop = process.StartTracing(ctx, role.Name, c.Version, c.TraceSettings)
		defer stop()
	}
	measures := prometheus.Gatherers{ctrlmetrics.Registry, s.Registry}
	if !role.NoDriver {
		driver := c.Shared
		if driver == nil {
			if driver, err = c.NewSharedDriver(role.Name); err != nil {
				return err
			}
			defer driver.Conn.Close()
		}
		s.Conn = driver.Conn
		measures = append(measures, driver.Calls)
	}
	if err := s.serve(ctx, measures); err != nil {
		return err
	}
	defer s.http.Stop()
	if !role.NoDriver {
		if s.Driver, err = c.meet(ctx, s.Conn); err != nil {
			return err
		}
	}
	return s.run(ctx)
}

// serve starts the HTTP server. Parts that have not started yet are not ready.
func (s *Sidecar) serve(ctx context.Context, measures prometheus.Gatherer) error {
	c := s.Config
	cfg := c.ServerConfig(measures, c.Spans, s.API)
	if c.Election.Enabled && c.HTTPEndpoint != "" { // HT-2, F-52
		cfg.Leader = s.renewing
	}
	s.http = process.NewHTTPServer(cfg)
	if c.Colocated.Ready != nil {
		s.http.SetCheck(c.Colocated.Name, c.Colocated.Ready)
	}
	s.http.SetCheck("cache", process.NotYet("the first list of objects is not complete"))
	if !s.Role.NoDriver {
		s.http.SetCheck("driver", process.NotYet("the driver has not answered yet"))
		s.http.SetCheck("cache", process.NotYet("waiting for the driver"))
	}
	s.setHealth(s.Role.Name, s.ready)
	for _, hosted := range c.Hosted {
		s.setHealth(hosted.kind.Name, s.ready)
	}
	if c.Served != nil {
		c.Served(s.http)
	}
	c.running.Store(s)
	return c.Listen(ctx, s.http)
}

// renewing returns an error when a lease that this process holds is not renewed.
func (s *Sidecar) renewing() error {
	var errs []error
	if lock := s.lock.Load(); lock != nil {
		errs = append(errs, lock.Healthy())
	}
	if s.Config.Colocated.Renewing != nil {
		errs = append(errs, s.Config.Colocated.Renewing())
	}
	return errors.Join(errs...)
}

// run builds the manager and its controllers and runs them. The driver has answered.
func (s *Sidecar) run(ctx context.Context) error {
	s.Config.CountThrottle(s.Registry)
	var err error
	if s.Events, err = s.newEvents(ctx); err != nil {
		return err
	}
	defer s.Events.Close()
	if err := s.findTables(ctx); err != nil {
		return err
	}
	if s.Manager, err = s.newManager(ctx); err != nil {
		return err
	}
	s.Cached = kube.NewOverlay(s.Manager.GetClient(), clock.RealClock{})
	s.Writer = s.Cached.Recording(s.Manager.GetClient())
	s.Manager = s.Cached.Before(s.Manager)
	if s.Role.Begin != nil {
		if err := s.Role.Begin(ctx, s); err != nil {
			return err
		}
	}
	if err := s.addTables(ctx); err != nil {
		return err
	}
	if err := errors.Join(
		process.OnStarted(s.Manager, s.Config.Started), process.SaveMemory(s.Manager), s.Manager.Add(s.http),
		s.watchDriver(),
	); err != nil {
		return err
	}
	s.http.SetCheck("cache", func(ctx context.Context) error { return process.CacheSynced(ctx, s.Manager) })
	defer process.RunWithoutCaches(ctx, s.checkPermissions)()
	return process.RunUntilLeaseLost(ctx, s.Manager)
}

// watchDriver has the process notice that the driver ends.
func (s *Sidecar) watchDriver() error {
	if s.Role.NoDriver {
		return nil
	}
	s.http.SetCheck("driver", s.Conn.Probe)
	return s.Manager.Add(connectionMonitor{
		settings: &s.Config.Connection, conn: s.Conn, driver: s.Driver, terminationLog: process.TerminationLog,
	})
}

// newEvents returns the event recorder of the role.
func (s *Sidecar) newEvents(ctx context.Context) (*kube.Events, error) {
	events, err := kube.NewEvents(ctx, kube.EventsConfig{
		API: s.API, Component: s.Role.EventSource(s.Driver.Name),
		Dropped: telemetry.NewCounter(s.Registry, telemetry.MetricEventsDropped).WithLabelValues().Inc,
	})
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return events, nil
}

// InFlight returns the gauge of calls to the driver.
func (s *Sidecar) InFlight() *prometheus.GaugeVec {
	return telemetry.NewGauge(s.Registry, telemetry.MetricInFlight)
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
		API: s.API, Trim: s.trim(ctx), Drain: s.drain(),
		Election: &s.Config.Election, Lease: name, Lock: lock, Release: !s.Role.KeepLease, NewCache: s.Role.NewCache,
	}
	switch cache := s.Config.Cache; {
	case cache == nil:
	case s.Role.NoDriver: // its table has the fields of the others
		cfg.NewCache = cache.Make
	default:
		cfg.NewCache = cache.Share(ctx)
	}
	return process.NewManager(ctx, cfg)
}

// LeaseName returns the name of the lease for the driver (LK-1, U-57).
func (s *Sidecar) LeaseName() string {
	return cmp.Or(s.Config.LeaseName, s.Role.Lease(s.Driver.Name))
}
