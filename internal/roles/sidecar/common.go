package sidecar

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/controllers/volumelock"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/telemetry"
)

// GateReleaseLease says whether the lease is released at the end. All sidecars have it.
const GateReleaseLease featuregate.Feature = "ReleaseLeaderElectionOnExit"

// Common is a sidecar role with the flags that upstream's attacher, resizer and snapshotter share.
// A role embeds it and adds its own flags and controllers. The csi-provisioner has more flags in
// other groups, and embeds [Config] instead.
type Common struct {
	Config
	Workers    uint
	RetryStart time.Duration
	RetryMax   time.Duration
	Gates      *cli.Gates

	kind Kind
}

// Kind has the settings in which these roles differ.
type Kind struct {
	Name         string // of the role
	LeasePrefix  string // before the driver's name
	EventsPrefix string // before the driver's name, as in upstream's event source
	Timeout      time.Duration
	WorkersFlag  string // upstream's name of the flag
	Gates        cli.GateTable
	Retired      []string // flags of older versions; accepted with a warning (AT-P8, RZ-F10)
	NoEvents     bool     // upstream's role may write no events (AT-R2)
	Trim         toolscache.TransformFunc
	Permissions  Permissions // nil for no check
	Add          func(context.Context, *Work) error
}

// Work is a running sidecar with the settings of its controllers.
type Work struct {
	*Sidecar
	Settings reconcile.Settings
	Calls    *volumelock.Locks
	InFlight *prometheus.GaugeVec
}

// NewCommon returns a role of this kind with the defaults that are no flags.
func NewCommon(kind Kind) Common {
	c := Common{Config: NewConfig(), kind: kind}
	c.Gates = cli.NewGates(kind.Gates, c.Notices)
	return c
}

// AddCommonFlags binds the settings that these sidecars share (AT-F10, RZ-F9).
func (c *Common) AddCommonFlags(f *pflag.FlagSet) {
	c.Given = f.Changed
	cli.Grouped(f, "Driver", func(f *pflag.FlagSet) { c.Connection.AddFlags(f, c.kind.Timeout) })
	cli.Grouped(f, "API server", c.APIAccess.AddFlags)
	cli.Grouped(f, "Workers and retries", func(f *pflag.FlagSet) {
		f.UintVar(&c.Workers, c.kind.WorkersFlag, 10, "objects that are reconciled in parallel")
		cli.RetryDelays{First: &c.RetryStart, Longest: &c.RetryMax}.AddFlags(f, time.Second, 5*time.Minute)
	})
	cli.Grouped(f, "Leader election", c.Election.AddFlags)
	cli.Grouped(f, "Metrics and health", c.AddSidecarFlags)
	cli.Grouped(f, "Process", func(f *pflag.FlagSet) {
		f.Var(c.Gates, "feature-gates", "features to switch, as `NAME=BOOL`,...: "+c.Gates.Known())
		f.BoolVar(&c.AutoMaxProcs, "automaxprocs", false,
			"set GOMAXPROCS from the container's CPU limit; the Go runtime does so without the flag")
	})
	cli.Grouped(f, "Logs", cli.LoggingFlags(c.Logging))
	cli.AddRetired(f, c.Notices, cli.RetiredSwitches(c.kind.Retired)...)
}

// ValidateCommon lists every mistake in the shared settings.
func (c *Common) ValidateCommon() error {
	return errors.Join(slices.Concat([]error{
		cli.Need(c.Workers > 0, "--%s=0: must be at least 1, or nothing is worked on", c.kind.WorkersFlag),
		cli.Need(c.RetryStart > 0 && c.RetryMax >= c.RetryStart,
			"--retry-interval-start=%s: must be more than 0 and at most --retry-interval-max=%s", c.RetryStart, c.RetryMax),
	}, c.ValidateShared())...)
}

// Run works until ctx ends, the lease is lost, or another driver answers.
func (c *Common) Run(ctx context.Context) error {
	return Run(ctx, &c.Config, Role{
		Name:        c.kind.Name,
		Lease:       func(driver string) string { return process.DriverLeaseName(c.kind.LeasePrefix + driver) },
		EventSource: func(driver string) string { return c.kind.EventsPrefix + driver },
		Trim:        c.kind.Trim,
		Drain:       c.Timeout + 5*time.Second,
		KeepLease:   !c.Gates.Enabled(GateReleaseLease),
		NoEvents:    c.kind.NoEvents,
		Permissions: c.kind.Permissions,
		Add: func(ctx context.Context, s *Sidecar) error {
			return c.kind.Add(ctx, c.work(s))
		},
	})
}

// AddBeside adds the controllers of this role to another sidecar role of the same process, whose
// connection, cache, lease and locks they share. Their events have the source of this role.
func (c *Common) AddBeside(ctx context.Context, s *Sidecar) error {
	events, err := s.eventsOf(ctx, c.kind.EventsPrefix+s.Driver.Name)
	if err != nil {
		return err
	}
	work := c.work(s)
	work.Settings.Events = events
	return c.kind.Add(ctx, work)
}

func (c *Common) work(s *Sidecar) *Work {
	return &Work{
		Sidecar: s, Calls: cmp.Or(s.Config.Locks, &volumelock.Locks{}),
		InFlight: telemetry.NewGauge(s.Registry, telemetry.MetricInFlight),
		Settings: reconcile.Settings{
			Workers: int(c.Workers), Backoff: reconcile.Backoff{
				First: c.RetryStart,
				Most:  c.RetryMax,
			}, Clock: clock.RealClock{},
			Events: s.Events, Decided: telemetry.NewCounter(s.Registry, telemetry.MetricDecisions),
		},
	}
}
