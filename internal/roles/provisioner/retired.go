package provisioner

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// takeStray accepts arguments that are not flags, as upstream does. Most often such an argument is
// the value of a boolean flag without its = (CL-1).
func (p *Provisioner) takeStray(_ *cobra.Command, args []string) error {
	for _, arg := range args {
		if arg != "" {
			p.Notices.Add(
				arg, "is no flag and has no effect; if it is the value of a flag, write it behind the flag and =",
			)
		}
	}
	return nil
}

func (p *Provisioner) retiredFlags(f *pflag.FlagSet) {
	cli.AddRetired(f, p.Notices, slices.Concat(p.retiredOwn(), cli.RetiredKlog())...)
}

// retiredOwn returns upstream's own flags of v0 to v2 (O-1, O-2).
func (p *Provisioner) retiredOwn() []cli.RetiredFlag {
	return []cli.RetiredFlag{
		{Name: "provisioner", Kind: "string", Now: "has no effect: the name comes from the driver"},
		{
			Name: "connection-timeout", Kind: "duration",
			Now: "has no effect: the process waits for the driver without a limit",
		},
		{
			Name: "enable-leader-election", Kind: "bool", Accept: p.Election.EnableOld,
			Now: "does what --leader-election does, and takes v1's lock on an Endpoints object too unless " +
				"--leader-election-type=leases is given",
		},
		{
			Name: "leader-election-type", Kind: "string", Accept: p.Election.SetType,
			Now: "leases is the lock of every version since v2; endpoints takes both the lock of v1 and the lease, " +
				"so that neither works at the same time",
		},
		{
			Name: "capacity-controller-deployment-mode", Kind: "string", Accept: p.Capacity.setMode,
			Now: "central and local do what --enable-capacity does, none has no effect",
		},
	}
}

// setMode sets the value of --capacity-controller-deployment-mode of v2.0.
func (c *Capacity) setMode(mode string) error {
	switch mode {
	case "", "none":
		return nil
	case "central", "local":
		c.Enabled = true
		return nil
	}
	return fmt.Errorf("%q: must be none, central or local", mode)
}
