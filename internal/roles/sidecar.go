package roles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubernetes-csi/csi-lib-utils/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/purser-csi/purser/internal/controllers/volumelock"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// sidecar is what the roles beside a CSI driver have in common: the connection to the driver, the API server, leader election, HTTP and
// logs. A role embeds it and brings its own flags and its controllers. The flags are those of upstream's sidecars; `purser
// csi-provisioner`, which has more of them, is older and has its own set.
type sidecar struct {
	Version string
	Log     logr.Logger // overrides the logging flags when set, for the roles inside of `up`

	apiAccess

	CSIAddress string
	Timeout    time.Duration
	Workers    uint
	RetryStart time.Duration
	RetryMax   time.Duration

	HTTPEndpoint   string
	MetricsAddress string
	MetricsPath    string

	Election     Election
	AutoMaxProcs bool
	Logging      *logsapi.LoggingConfiguration

	Started func() // for `up`: called once the role works; nil for no call

	kind     sidecarKind
	gates    gateFlag
	notices  *notices
	listened func(net.Addr) // for tests: where HTTP is served
}

// sidecarKind is what one sidecar role differs in.
type sidecarKind struct {
	name         string // of the role
	leasePrefix  string // before the driver's name
	eventsPrefix string // before the driver's name, as upstream's event source
	timeout      time.Duration
	workersFlag  string // upstream's name of the flag
	retired      []string
	trim         toolscache.TransformFunc
	// add registers the controllers once the driver is known.
	add func(ctx context.Context, r *sidecarRun) error
}

// sidecarRun is a sidecar at work.
type sidecarRun struct {
	*sidecar
	rest     *rest.Config
	conn     *csirpc.Conn
	driver   csirpc.Description
	mgr      manager.Manager
	events   *kube.Events
	settings reconcile.Settings
	calls    *volumelock.Locks
	inFlight *prometheus.GaugeVec
	registry *prometheus.Registry
	http     *httpServer
	lock     atomic.Pointer[watchedLock]
}

func newSidecar(kind sidecarKind) sidecar {
	s := sidecar{kind: kind, Logging: logsapi.NewLoggingConfiguration(), notices: &notices{}}
	s.gates.notices = s.notices
	s.Election.identity = newIdentity()
	return s
}

// addFlags binds the settings that all sidecars have (AT-F10, RZ-F9).
func (s *sidecar) addFlags(f *pflag.FlagSet) {
	grouped(f, "Driver", func(f *pflag.FlagSet) {
		f.StringVar(&s.CSIAddress, "csi-address", "/run/csi/socket", "the driver's socket: an absolute `path`, or unix:// with one")
		f.DurationVar(&s.Timeout, "timeout", s.kind.timeout, "for each call to the driver")
	})
	grouped(f, "API server", s.flags)
	grouped(f, "Pace", func(f *pflag.FlagSet) {
		f.UintVar(&s.Workers, s.kind.workersFlag, 10, "objects that are worked on at once")
		f.DurationVar(&s.RetryStart, "retry-interval-start", time.Second, "first delay after a failure; it doubles with each further one")
		f.DurationVar(&s.RetryMax, "retry-interval-max", 5*time.Minute, "longest delay after a failure")
	})
	grouped(f, "Leader election", s.Election.flags)
	grouped(f, "Metrics and health", func(f *pflag.FlagSet) {
		f.StringVar(&s.HTTPEndpoint, "http-endpoint", "", "`address`, such as :8080, to serve metrics and health on; empty for none")
		f.StringVar(&s.MetricsAddress, "metrics-address", "", "older name of http-endpoint, an `address` without /healthz/leader-election; give only one of the two")
		f.StringVar(&s.MetricsPath, "metrics-path", "/metrics", "HTTP `path` of the metrics")
	})
	grouped(f, "Process", func(f *pflag.FlagSet) {
		f.Var(&s.gates, "feature-gates", "features to switch, as `NAME=BOOL`,...: "+s.gates.describe())
		f.BoolVar(&s.AutoMaxProcs, "automaxprocs", false, "take GOMAXPROCS from the container's CPU limit; the Go runtime does so without the flag")
	})
	grouped(f, "Logs", loggingFlags(s.Logging))
	for _, name := range s.kind.retired {
		f.Var(retiredSidecarValue{name, s.notices}, name, "has no effect any more")
		f.Lookup(name).NoOptDefVal = "true"
		f.Lookup(name).Hidden = true
	}
	marked(f, markDeprecated, "metrics-address")
}

// retiredSidecarValue accepts the value of a flag that upstream had once, with a warning (AT-P8, RZ-F10).
type retiredSidecarValue struct {
	name    string
	notices *notices
}

func (r retiredSidecarValue) String() string { return "" }
func (r retiredSidecarValue) Type() string   { return "value" }

// Set implements pflag.Value.
func (r retiredSidecarValue) Set(string) error {
	r.notices.add("--"+r.name, "the flag is of an older version and has no effect")
	return nil
}

func (s *sidecar) validateAll() error {
	_, address := csirpc.SocketPath(s.CSIAddress)
	if address != nil {
		address = fmt.Errorf("--csi-address: %w", address)
	}
	return errors.Join(slices.Concat([]error{
		address,
		need(s.Timeout > 0, "--timeout=%s: must be more than 0", s.Timeout),
		need(s.Workers > 0, "--%s=0: must be at least 1, or nothing is worked on", s.kind.workersFlag),
		need(s.RetryStart > 0 && s.RetryMax >= s.RetryStart, "--retry-interval-start=%s: must be more than 0 and at most --retry-interval-max=%s", s.RetryStart, s.RetryMax),
		need(s.HTTPEndpoint == "" || s.MetricsAddress == "", "--metrics-address and --http-endpoint: give only one of the two"),
	}, s.validate(), validateLogging(s.Logging), s.Election.validate())...)
}

// Run implements role.
func (s *sidecar) Run(ctx context.Context) error {
	ctx, err := startLogging(ctx, s.Log, s.Logging)
	if err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx)
	for _, n := range s.notices.lines {
		log.Info("the flag is deprecated or not supported", "flag", n.flag, "effect", n.text)
	}
	r := &sidecarRun{sidecar: s, registry: prometheus.NewRegistry(), calls: &volumelock.Locks{}}
	if r.rest, err = s.config("purser-" + s.kind.name + "/" + s.Version); err != nil {
		return err
	}
	measured := metrics.NewCSIMetricsManagerWithOptions("unknown-driver", metrics.WithProcessStartTime(false), metrics.WithSubsystem(metrics.SubsystemSidecar))
	if r.conn, err = csirpc.Dial(csirpc.Config{Endpoint: s.CSIAddress, Timeout: s.Timeout, Metrics: measured}); err != nil {
		return err
	}
	defer r.conn.Close()
	if err := r.serve(ctx, prometheus.Gatherers{ctrlmetrics.Registry, measured.GetRegistry(), r.registry}); err != nil {
		return err
	}
	defer r.http.stop()
	if r.driver, err = r.meet(ctx); err != nil {
		return err
	}
	measured.SetDriverName(r.driver.Name)
	return r.work(ctx)
}

// serve answers HTTP requests before the driver is met (AT-S2).
func (r *sidecarRun) serve(ctx context.Context, measures prometheus.Gatherer) error {
	cfg := httpConfig{Address: cmp.Or(r.HTTPEndpoint, r.MetricsAddress), MetricsPath: r.MetricsPath, Metrics: measures}
	if r.Election.Enabled && r.HTTPEndpoint != "" {
		cfg.Leader = r.renewing
	}
	r.http = newHTTPServer(cfg)
	r.http.setCheck("driver", notYet("the driver has not answered yet"))
	if cfg.Address == "" {
		return nil
	}
	where, err := r.http.start(ctx)
	if err == nil && r.listened != nil {
		r.listened(where)
	}
	return err
}

func (r *sidecarRun) renewing() error {
	if lock := r.lock.Load(); lock != nil {
		return lock.healthy()
	}
	return nil
}

// meet waits for the driver, and says every ten seconds that it does.
func (r *sidecarRun) meet(ctx context.Context) (csirpc.Description, error) {
	log := logr.FromContextOrDiscard(ctx)
	var told time.Time
	err := r.conn.WaitReady(ctx, func(err error) {
		if time.Since(told) >= complainEvery {
			told = time.Now()
			log.Info("waiting for the csi driver", "address", r.CSIAddress, "problem", err.Error())
		}
	})
	if err != nil {
		return csirpc.Description{}, err
	}
	return r.conn.Describe(ctx)
}

// work builds the manager and runs the controllers until ctx ends, the lease is lost or the driver is another one.
func (r *sidecarRun) work(ctx context.Context) error {
	dropped := telemetry.NewCounter(r.registry, telemetry.MetricEventsDropped).WithLabelValues()
	r.countThrottle(r.registry)
	r.inFlight = telemetry.NewGauge(r.registry, telemetry.MetricInFlight)
	var err error
	r.events, err = kube.NewEvents(ctx, kube.EventsConfig{API: r.rest, Component: r.kind.eventsPrefix + r.driver.Name, Dropped: dropped.Inc, Traffic: r.traffic})
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	defer r.events.Close()
	r.settings = reconcile.Settings{
		Workers: int(r.Workers), Backoff: reconcile.Backoff{First: r.RetryStart, Most: r.RetryMax}, Clock: clock.RealClock{},
		Events: r.events, Decided: telemetry.NewCounter(r.registry, telemetry.MetricDecisions),
	}
	name := leaseName(r.kind.leasePrefix + r.driver.Name)
	lock, err := r.Election.newLock(r.rest, name, r.events)
	if err != nil {
		return err
	}
	lock.slow = telemetry.NewCounter(r.registry, telemetry.MetricSlowPath).WithLabelValues(name).Inc
	r.lock.Store(lock)
	r.mgr, err = newManager(ctx, managerConfig{
		api: r.rest, trim: r.kind.trim, drain: r.Timeout + 5*time.Second, election: &r.Election, lease: name, lock: lock, release: true,
	})
	if err != nil {
		return err
	}
	if err := errors.Join(r.kind.add(ctx, r), r.mgr.Add(r.http), r.mgr.Add(connectionMonitor{r}), tellStarted(r.mgr, r.Started)); err != nil {
		return err
	}
	r.http.setCheck("driver", r.conn.Probe)
	r.http.setCheck("cache", func(ctx context.Context) error { return synced(ctx, r.mgr) })
	return r.mgr.Start(ctx)
}

// connectionMonitor ends the process when another driver answers at the socket, or the same with other capabilities: what is watched
// and asked depends on them. A driver that comes back as it was costs nothing.
type connectionMonitor struct{ *sidecarRun }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (connectionMonitor) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (m connectionMonitor) Start(ctx context.Context) error {
	for {
		if err := m.conn.WaitBroken(ctx); err != nil {
			return nil //nolint:nilerr // the process ends, the connection is well
		}
		logr.FromContextOrDiscard(ctx).Info("lost the connection to the csi driver, connecting again")
		driver, err := m.meet(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("meet the csi driver again: %w", err)
		case driver.Name != m.driver.Name || !maps.Equal(driver.Controller, m.driver.Controller) || !maps.Equal(driver.Plugin, m.driver.Plugin):
			return otherDriver(m.driver, driver)
		}
	}
}
