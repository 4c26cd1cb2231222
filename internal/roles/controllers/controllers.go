package controllers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/attachdetach"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// Controllers is the role controllers: those controllers of kube-controller-manager that concern
// claims and volumes.
type Controllers struct {
	sidecar.Config
	Gates *cli.Gates // --feature-gates

	Wanted []string // --controllers
	// ForceDetachAfter is how long an unhealthy node may report in use a volume that it does not
	// need. With KeepInUse (--disable-force-detach-on-timeout) the volume stays attached as long as
	// it is reported in use.
	ForceDetachAfter time.Duration
	KeepInUse        bool

	Queue *handoff.Queue // of the provisioner in the same process; nil for none
	// Attachments connects with the attachers in the same process; nil for none.
	Attachments *handoff.Attachments
	// Snapshots is what the snapshot-controller in the same process knows; nil for none.
	Snapshots *handoff.Snapshots

	parts *Parts // of the run; set when the rows are listed
}

const (
	everyController = "*"
	// Lease is the name of the lease.
	Lease = "purser-controllers"
)

// New has the default of every setting.
func New() *Controllers {
	c := &Controllers{Config: sidecar.NewConfig()}
	c.Gates = cli.NewGates(gateTable, c.Notices)
	c.Colocated.Registry = prometheus.NewRegistry()
	c.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return c
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	r := New()
	r.Version = program.Version
	return cli.NewRoleCommand(program, r, &cobra.Command{
		Use:   "controllers",
		Short: "Bind claims to volumes, and protect both while they are in use",
		Long: `Bind claims to volumes, and protect both while they are in use.

It replaces the controllers of kube-controller-manager for claims and volumes:
the PV controller (binder), the protection of claims, volumes and
VolumeAttributesClasses, expansion for CSI drivers, generic ephemeral volumes,
and attaching and detaching. Switch each of them off there by its name:

  --controllers=*,-persistentvolume-binder-controller,...`,
		Example: `  purser controllers --kubeconfig ~/.kube/config
  purser controllers --leader-election --controllers=persistentvolume-binder-controller`,
	})
}

// AddFlags binds every setting to its flag.
func (c *Controllers) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Controllers", func(f *pflag.FlagSet) {
		c.WantedFlag(f)
		f.UintVar(
			&c.Workers, "worker-threads", DefaultWorkers, "objects of one controller that are reconciled in parallel",
		)
		cli.RetryDelays{First: &c.RetryStart, Longest: &c.RetryMax}.AddFlags(f, 100*time.Millisecond, time.Minute)
		c.DetachFlags(f)
	})
	cli.Grouped(f, "API server", c.APIAccess.AddFlags)
	cli.Grouped(f, "Leader election", c.Election.AddFlags)
	cli.Grouped(f, "Metrics and health", c.HTTPSettings.AddFlags)
	cli.Grouped(f, "Traces", c.AddTraceFlags)
	cli.Grouped(f, "Process", func(f *pflag.FlagSet) {
		f.Var(c.Gates, cli.FeatureGates, "features to switch, as `NAME=BOOL`,...: "+c.Gates.Known())
	})
	cli.Grouped(f, "Logs", cli.LoggingFlags(c.Logging))
}

// DetachFlags adds the flags of detaching, which `plane` has too.
func (c *Controllers) DetachFlags(f *pflag.FlagSet) {
	f.DurationVar(&c.ForceDetachAfter, "force-detach-after", attachdetach.DefaultForceAfter,
		"how long a node that is not ready may report a volume in use that no pod there needs; then it is detached "+
			"anyway")
	f.BoolVar(&c.KeepInUse, "disable-force-detach-on-timeout", false,
		"never detach a volume that a node which is not ready reports in use, unless the node has the taint "+
			"out-of-service")
}

// ValidateDetach reports a mistake in these flags.
func (c *Controllers) ValidateDetach() error {
	return cli.Need(c.ForceDetachAfter > 0,
		"--force-detach-after=%s: must be more than 0; --disable-force-detach-on-timeout is for never",
		c.ForceDetachAfter)
}

// WantedFlag adds --controllers, which `plane` has too.
func (c *Controllers) WantedFlag(f *pflag.FlagSet) {
	f.StringSliceVar(
		&c.Wanted,
		"controllers",
		[]string{everyController},
		"`names` of the controllers to run, as kube-controller-manager calls them; * for all, "+
			"-NAME for all but this one: "+strings.Join(Names(), ", "),
	)
}

// DefaultWorkers is as many as a provisioner has. Each worker has at most two requests in flight.
// With 32 workers, claims of a burst waited in the work queue: the slowest of a thousand claims
// took a quarter longer.
const DefaultWorkers = 100

// Validate implements role.
func (c *Controllers) Validate() error {
	_, names := c.Enabled()
	return errors.Join(slices.Concat(
		[]error{
			names,
			c.ValidateDetach(),
		},
		c.ValidatePace("worker-threads"), c.ValidateShared(),
	)...)
}

// Enabled returns which controllers run. Each can be replaced by itself, since they communicate
// only through the API server.
func (c *Controllers) Enabled() (map[string]bool, error) {
	on := map[string]bool{}
	var unknown []error
	for _, item := range c.Wanted {
		name, off := strings.CutPrefix(item, "-")
		name = currentName(name)
		switch {
		case name == everyController && !off:
			for _, n := range Names() {
				if _, said := on[n]; !said {
					on[n] = true
				}
			}
		case slices.Contains(Names(), name):
			on[name] = !off
		default:
			unknown = append(
				unknown,
				fmt.Errorf("--controllers: %q is not known; there are *, %s", item, strings.Join(Names(), ", ")),
			)
		}
	}
	if len(unknown) == 0 && !slices.Contains(slices.Collect(maps.Values(on)), true) {
		unknown = append(unknown, errors.New("--controllers: nothing is left to run; name at least one, or *"))
	}
	return on, errors.Join(unknown...)
}
