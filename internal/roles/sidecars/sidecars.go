package sidecars

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
)

// names are the roles that can be left out, as the flag --without spells them.
var names = []string{"attacher", "resizer", "snapshotter"}

// Sidecars is the role sidecars. Its flags are those of csi-provisioner and some of the others.
type Sidecars struct {
	*provisioner.Provisioner
	Attacher    *attacher.Attacher
	Resizer     *resizer.Resizer
	Snapshotter *snapshotter.Snapshotter
	Without     []string // --without
}

// New returns the role with the default of every setting.
func New() *Sidecars {
	s := &Sidecars{
		Provisioner: provisioner.New(), Attacher: attacher.New(), Resizer: resizer.New(),
		Snapshotter: snapshotter.New(),
	}
	s.Gates.Include(s.Attacher.Gates, s.Resizer.Gates, s.Snapshotter.Gates)
	return s
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	s := New()
	s.Version = program.Version
	return cli.NewRoleCommand(program, s, &cobra.Command{
		Use:   "sidecars",
		Short: "All sidecars of one CSI driver in one process",
		Long: `The roles csi-provisioner, csi-attacher, csi-resizer and csi-snapshotter in one
process beside one CSI driver: one connection, one cache, and one lease, which
is that of csi-provisioner. No other sidecar of these kinds may run for the
driver.

Sidecars for capabilities that the driver lacks are not started. The
snapshotter needs the custom resources of snapshots; without them, add
--without=snapshotter. The flags and feature gates are those of all four roles,
except for --workers, in whose place is --worker-threads; a flag that several
of them have is for all of them. The service account needs the permissions of
every role that runs (deploy/optional/sidecars.yaml).`,
		Example: `  purser sidecars --csi-address=/run/csi/socket --leader-election`,
	})
}

// AddFlags binds every setting to its flag.
func (s *Sidecars) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Sidecars", func(f *pflag.FlagSet) {
		f.StringSliceVar(&s.Without, "without", nil, "`roles` to leave out: "+strings.Join(names, ", "))
	})
	cli.Grouped(f, "Snapshots", func(f *pflag.FlagSet) {
		f.StringVar(&s.Snapshotter.NamePrefix, "snapshot-name-prefix", "snapshot",
			"prefix of the names of snapshots on the backend")
		f.BoolVar(&s.Snapshotter.Controller, "snapshot-controller", false,
			"also run the cluster's snapshot-controller; there must be no other")
	})
	s.Provisioner.AddFlags(f)
	s.Resizer.AddExpansionFlags(f)
	for _, role := range []interface{ AddFlags(f *pflag.FlagSet) }{s.Attacher, s.Resizer, s.Snapshotter} {
		cli.AddOthers(f, role.AddFlags, replaced...)
	}
	s.Resizer.Given = f.Changed
}

// replaced are flags of the roles that a flag of csi-provisioner replaces, since the process has one
// number of workers.
var replaced = []string{"workers"}

// Validate implements cli.Role.
func (s *Sidecars) Validate() error {
	errs := []error{s.Provisioner.Validate(), s.Resizer.ValidateExpansion()}
	for _, name := range s.Without {
		errs = append(errs, cli.Need(
			slices.Contains(names, name), "--without=%s: there are %s", name, strings.Join(names, ", "),
		))
	}
	return errors.Join(append(errs, cli.Need(!s.NodeDeployment.Enabled,
		"--node-deployment: not with sidecars, whose other roles are not made for every node; run csi-provisioner "+
			"for it"))...)
}

// Run implements cli.Role.
func (s *Sidecars) Run(ctx context.Context) error {
	var hosted []*sidecar.Common
	for _, name := range names {
		if !slices.Contains(s.Without, name) {
			hosted = append(hosted, s.roles()[name])
		}
	}
	s.InProcess.Attacher = !slices.Contains(s.Without, "attacher")
	s.Host(hosted...)
	return s.Provisioner.Run(ctx)
}

// roles returns the roles that can be left out.
func (s *Sidecars) roles() map[string]*sidecar.Common {
	return map[string]*sidecar.Common{
		"attacher": &s.Attacher.Common, "resizer": &s.Resizer.Common, "snapshotter": &s.Snapshotter.Common,
	}
}
