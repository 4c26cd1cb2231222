package up

import (
	"errors"

	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
)

// roleGates is the value of --feature-gates: the gates of the roles that `up` starts. Each role gets
// those that it has.
type roleGates struct{ given []string }

// newRoleGates returns the gates of the roles, to check a value with.
func newRoleGates() *cli.Gates {
	notices := &cli.Notices{}
	all := cli.NewGates(cli.GateTable{}, notices)
	all.Include(controllers.New().Gates, provisioner.New().Gates, attacher.New().Gates, resizer.New().Gates,
		snapshotter.New().Gates, snapshotter.NewController().Gates)
	return all
}

// Set implements pflag.Value. The flag may be given more than once.
func (g *roleGates) Set(value string) error {
	if err := newRoleGates().Set(value); err != nil {
		return err
	}
	g.given = append(g.given, value)
	return nil
}

// String implements pflag.Value; the help page shows no default.
func (g *roleGates) String() string { return "" }

// Type implements pflag.Value.
func (g *roleGates) Type() string { return "NAME=BOOL" }

// applyTo sets the gates of a role.
func (g *roleGates) applyTo(role *cli.Gates) error {
	var errs []error
	for _, value := range g.given {
		errs = append(errs, role.SetKnown(value))
	}
	return errors.Join(errs...)
}
