package sidecar

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
)

// GateReleaseLease says whether the lease is released at the end. All sidecars have it.
const GateReleaseLease featuregate.Feature = "ReleaseLeaderElectionOnExit"

// RetiredLogFlags are flags of the logging library of older versions, for [Kind.Retired].
var RetiredLogFlags = []string{
	"logtostderr", "alsologtostderr", "stderrthreshold", "log_dir", "log_file", "skip_headers",
}

// Common is a sidecar role with the flags that upstream's attacher, resizer and snapshotter share.
// A role embeds it and adds its own flags and controllers. The csi-provisioner has more flags in
// other groups, and embeds [Config] instead.
type Common struct {
	Config
	Gates *cli.Gates

	kind Kind
}

// Kind has the settings in which these roles differ.
type Kind struct {
	Name         string // of the role
	LeasePrefix  string // before the driver's name
	EventsPrefix string // before the driver's name, as in upstream's event source
	Timeout      time.Duration
	WorkersFlag  string        // upstream's name of the flag
	Gates        cli.GateTable // beside GateReleaseLease and those of libraries
	Retired      []string      // flags of older versions; accepted with a warning (AT-P8, RZ-F10)
	NoEvents     bool          // upstream's role may write no events (AT-R2)
	NoDriver     bool          // the role calls no driver; its lease and event source are the prefixes
	Table        Table
	LongestCall  func() time.Duration // to the driver; nil for the timeout
}

// NewCommon returns a role of this kind with the defaults that are no flags.
func NewCommon(kind Kind) Common {
	c := Common{Config: NewConfig(), kind: kind}
	gates := kind.Gates
	gates.Specs = map[featuregate.Feature]featuregate.FeatureSpec{
		GateReleaseLease: {Default: true, PreRelease: featuregate.Alpha},
	}
	maps.Copy(gates.Specs, kind.Gates.Specs)
	gates.Ignored = cli.LibraryGates
	c.Gates = cli.NewGates(gates, c.Notices)
	return c
}

// AddCommonFlags binds the settings that these sidecars share (AT-F10, RZ-F9).
func (c *Common) AddCommonFlags(f *pflag.FlagSet) {
	c.Given = f.Changed
	if !c.kind.NoDriver {
		cli.Grouped(f, "Driver", func(f *pflag.FlagSet) { c.Connection.AddFlags(f, c.kind.Timeout) })
	}
	cli.Grouped(f, "API server", c.APIAccess.AddFlags)
	cli.Grouped(f, "Workers and retries", func(f *pflag.FlagSet) {
		f.UintVar(&c.Workers, c.kind.WorkersFlag, 10, "objects that are reconciled in parallel")
		cli.RetryDelays{First: &c.RetryStart, Longest: &c.RetryMax}.AddFlags(f, time.Second, 5*time.Minute)
	})
	cli.Grouped(f, "Leader election", c.Election.AddFlags)
	cli.Grouped(f, "Metrics and health", c.AddSidecarFlags)
	cli.Grouped(f, "Traces", c.AddTraceFlags)
	cli.Grouped(f, "Process", func(f *pflag.FlagSet) {
		f.Var(c.Gates, "feature-gates", "features to switch, as `NAME=BOOL`,...: "+c.Gates.Known())
		c.AddProcessorFlag(f)
	})
	cli.Grouped(f, "Logs", cli.LoggingFlags(c.Logging))
	cli.AddRetired(f, c.Notices, cli.RetiredSwitches(c.kind.Retired)...)
}

// ValidateCommon lists every mistake in the shared settings.
func (c *Common) ValidateCommon() error {
	var connection []error
	if !c.kind.NoDriver {
		connection = c.Connection.Validate()
	}
	return errors.Join(slices.Concat(connection, c.ValidatePace(c.kind.WorkersFlag), c.ValidateShared())...)
}

// Run works until ctx ends, the lease is lost, or another driver answers.
func (c *Common) Run(ctx context.Context) error { return Run(ctx, &c.Config, c.Role()) }

// Role returns the role as [Run] takes it.
func (c *Common) Role() Role {
	lease := func(driver string) string { return process.DriverLeaseName(c.kind.LeasePrefix + driver) }
	if c.kind.NoDriver {
		lease = func(string) string { return c.kind.LeasePrefix }
	}
	return Role{
		Name: c.kind.Name, NoDriver: c.kind.NoDriver, Lease: lease,
		EventSource: func(driver string) string { return c.kind.EventsPrefix + driver },
		Drain:       c.drain(),
		KeepLease:   !c.Gates.Enabled(GateReleaseLease),
		NoEvents:    c.kind.NoEvents,
		Table:       c.kind.Table,
	}
}

// drain returns how long calls in flight may take when the process ends: a call to the driver and the
// write after it.
func (c *Common) drain() time.Duration {
	switch {
	case c.kind.NoDriver:
		return drainTime
	case c.kind.LongestCall != nil:
		return c.kind.LongestCall() + 5*time.Second
	}
	return c.Timeout + 5*time.Second
}

// drainTime is for the API requests in flight of a role that calls no driver.
const drainTime = 20 * time.Second

// Host runs the roles within this one: with its timeout, workers and delays, and its connection, cache,
// lease and locks. Their events have their own source.
func (c *Config) Host(roles ...*Common) {
	for _, role := range roles {
		role.Timeout, role.Workers, role.RetryStart, role.RetryMax = c.Timeout, c.Workers, c.RetryStart, c.RetryMax
	}
	c.Hosted = roles
}
