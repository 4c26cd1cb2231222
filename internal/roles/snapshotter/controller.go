package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/purser-csi/purser/internal/controllers/snapshotting"
	core "github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Lease is the name of the snapshot-controller's lease, as upstream's (SN-M3).
const Lease = "snapshot-controller-leader"

// Controller is the role snapshot-controller: the drop-in for upstream's. It calls no driver.
type Controller struct {
	Version string
	Log     logr.Logger
	Started func()

	process.APIAccess
	process.HTTPSettings
	Election process.Election
	Logging  *logsapi.LoggingConfiguration

	Workers    uint
	RetryStart time.Duration
	RetryMax   time.Duration
	SourceMode bool
	// Distributed is --enable-distributed-snapshotting.
	Distributed bool
	Gates       *cli.Gates
	Notices     *cli.Notices

	resync, wait time.Duration
	autoMaxProcs bool
}

// NewController returns the role with the default of every setting.
func NewController() *Controller {
	c := &Controller{Logging: logsapi.NewLoggingConfiguration(), Notices: &cli.Notices{}}
	c.Gates = cli.NewGates(gateTable, c.Notices)
	c.Election.Holder = process.NewIdentity()
	c.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return c
}

// ControllerCommand returns the command snapshot-controller.
func ControllerCommand(program cli.Program) *cobra.Command {
	s := NewController()
	s.Version = program.Version
	c := &cobra.Command{
		Use: "snapshot-controller", GroupID: cli.GroupRun, Args: cli.NoArguments,
		Annotations: map[string]string{cli.SingleDash: "true"},
		Short:       "Bind VolumeSnapshots to their contents, for all drivers",
		Long: `Create and bind the contents of VolumeSnapshots, for all drivers of a cluster.

It replaces upstream's snapshot-controller, and works with Purser's or
upstream's csi-snapshotter. Flags can have one dash or two, as with upstream.`,
		Example: `  purser snapshot-controller --leader-election`,
		Version: program.Version,
		RunE:    cli.Run(s),
	}
	s.AddFlags(c.Flags())
	c.SetVersionTemplate(program.Name + " {{.Version}}\n")
	return c
}

// AddFlags binds every setting to its flag (SN-F20 to SN-F25).
func (c *Controller) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Snapshots", func(f *pflag.FlagSet) {
		f.BoolVar(
			&c.SourceMode,
			"prevent-volume-mode-conversion",
			true,
			"write down the mode of the source volume, for the provisioner to compare",
		)
		f.BoolVar(
			&c.Distributed,
			"enable-distributed-snapshotting",
			false,
			"label the content of a node-local volume with a node, whose csi-snapshotter takes the snapshot; needs permission to list nodes",
		)
		f.DurationVar(&c.resync, "resync-period", 15*time.Minute, "has no effect: changes are watched, and no resync is needed")
		f.DurationVar(
			&c.wait,
			"retry-crd-interval-max",
			30*time.Second,
			"has no effect: the program waits for the custom resources",
		)
	})
	cli.Grouped(f, "API server", c.APIAccess.AddFlags)
	cli.Grouped(f, "Workers and retries", func(f *pflag.FlagSet) {
		f.UintVar(&c.Workers, "worker-threads", 10, "objects that are reconciled in parallel")
		cli.RetryDelays{First: &c.RetryStart, Longest: &c.RetryMax}.AddFlags(f, time.Second, 5*time.Minute)
	})
	cli.Grouped(f, "Leader election", c.Election.AddFlags)
	cli.Grouped(f, "Metrics and health", c.AddSidecarFlags)
	cli.Grouped(f, "Process", func(f *pflag.FlagSet) {
		f.Var(c.Gates, "feature-gates", "features to switch, as `NAME=BOOL`,...: "+c.Gates.Known())
		f.BoolVar(
			&c.autoMaxProcs,
			"automaxprocs",
			false,
			"has no effect: the Go runtime takes GOMAXPROCS from the container's CPU limit",
		)
	})
	cli.Grouped(f, "Logs", cli.LoggingFlags(c.Logging))
	addOlderGate(f, c.Gates)
	cli.AddRetired(f, c.Notices, cli.RetiredSwitches(retired)...)
}

// Validate implements cli.Role.
func (c *Controller) Validate() error {
	errs := append(c.APIAccess.Validate(), c.HTTPSettings.Validate(c.Notices)...)
	errs = append(errs, cli.ValidateLogging(c.Logging)...)
	errs = append(errs, c.Election.Validate()...)
	return errors.Join(append(errs,
		cli.Need(c.Workers > 0, "--worker-threads=0: must be at least 1, or nothing is worked on"),
		cli.Need(c.RetryStart > 0 && c.RetryMax >= c.RetryStart,
			"--retry-interval-start=%s: must be more than 0 and at most --retry-interval-max=%s", c.RetryStart, c.RetryMax))...)
}

// drainTime is for the API requests in flight when the process is asked to end.
const drainTime = 20 * time.Second

// Run works until ctx ends or the lease is lost.
func (c *Controller) Run(ctx context.Context) error {
	ctx, err := process.StartLogging(ctx, c.Log, c.Logging)
	if err != nil {
		return err
	}
	c.Notices.LogTo(logr.FromContextOrDiscard(ctx))
	api, err := c.Config("purser-snapshot-controller/" + c.Version)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	c.CountThrottle(registry)
	events, err := kube.NewEvents(ctx, kube.EventsConfig{
		API: api, Component: "snapshot-controller",
		Dropped: telemetry.NewCounter(registry, telemetry.MetricEventsDropped).WithLabelValues().Inc,
	})
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	defer events.Close()
	lock, err := c.Election.NewLock(api, Lease, events)
	if err != nil {
		return err
	}
	lock.Slow = telemetry.NewCounter(registry, telemetry.MetricSlowPath).WithLabelValues(Lease).Inc
	mgr, err := process.NewManager(ctx, process.ManagerConfig{
		API: api, Trim: trim, Drain: drainTime, Election: &c.Election, Lease: Lease, Lock: lock,
		Release: c.Gates.Enabled(sidecar.GateReleaseLease),
	})
	if err != nil {
		return err
	}
	settings := c.ServerConfig(prometheus.Gatherers{ctrlmetrics.Registry, registry})
	if c.Election.Enabled {
		settings.Leader = lock.Healthy
	}
	server := process.NewHTTPServer(settings)
	server.SetCheck("cache", func(ctx context.Context) error { return process.CacheSynced(ctx, mgr) })
	if err := c.Listen(ctx, server); err != nil {
		return err
	}
	defer server.Stop()
	controller := c.newController(mgr, registry, events)
	if err := errors.Join(
		controller.AddTo(ctx, mgr),
		followGroups(mgr, c.Gates, controller),
		mgr.Add(server),
		process.OnStarted(mgr, c.Started),
	); err != nil {
		return err
	}
	return process.RunUntilLeaseLost(ctx, mgr)
}

// newController returns the controller with the settings of the flags.
func (c *Controller) newController(
	mgr manager.Manager, registry *prometheus.Registry, events *kube.Events,
) *snapshotting.Controller {
	return snapshotting.NewController(snapshotting.ControllerConfig{
		Settings: reconcile.Settings{
			Workers: int(c.Workers), Clock: clock.RealClock{},
			Backoff: reconcile.Backoff{First: c.RetryStart, Most: c.RetryMax},
			Events:  events, Decided: telemetry.NewCounter(registry, telemetry.MetricDecisions),
		},
		Mode:   core.Settings{SourceMode: c.SourceMode, Distributed: c.Distributed},
		Cached: mgr.GetClient(), Live: mgr.GetAPIReader(), Writer: mgr.GetClient(),
		Operations: telemetry.NewSnapshotOperations(registry),
	})
}
