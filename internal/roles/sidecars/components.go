package sidecars

import (
	"errors"
	"slices"
	"strings"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/livenessprobe"
	"github.com/purser-csi/purser/internal/roles/registrar"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// The components, as --without and --controllers spell them.
const (
	compProvisioner = "provisioner"
	compAttacher    = "attacher"
	compResizer     = "resizer"
	compSnapshotter = "snapshotter"
	compHealth      = sidecar.HealthMonitor
	compRegistrar   = registrar.Name
	compLiveness    = livenessprobe.Name
	compMetadata    = "snapshot-metadata"
)

// names are all components.
var names = []string{
	compProvisioner, compAttacher, compResizer, compSnapshotter, compHealth, compRegistrar, compLiveness,
	compMetadata,
}

// withControllers are the components that have controllers: they share the manager.
var withControllers = []string{compProvisioner, compAttacher, compResizer, compSnapshotter, compHealth}

// running returns the components that run, in the order of names.
func (s *Sidecars) running() []string {
	var on []string
	switch {
	case len(s.Controllers) > 0: // OC-3
		on = trimmed(s.Controllers)
	case s.Node && s.NodeDeployment.Enabled:
		on = []string{compProvisioner, compSnapshotter, compRegistrar, compLiveness}
	case s.Node:
		on = []string{compRegistrar, compLiveness}
	default:
		on = append(slices.Clone(withControllers), compLiveness)
	}
	if s.WithMetadata {
		on = append(on, compMetadata)
	}
	off := trimmed(s.Without)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !slices.Contains(on, name) || slices.Contains(off, name)
	})
}

// trimmed returns the components of a flag without the spaces around them, as after a comma.
func trimmed(chosen []string) []string {
	all := make([]string, 0, len(chosen))
	for _, name := range chosen {
		all = append(all, strings.TrimSpace(name))
	}
	return all
}

// runs reports whether a component runs.
func (s *Sidecars) runs(name string) bool { return slices.Contains(s.running(), name) }

// hasControllers reports whether one of the components that run has controllers.
func (s *Sidecars) hasControllers() bool { return slices.ContainsFunc(withControllers, s.runs) }

// validateComponents lists the mistakes in the choice of components.
func (s *Sidecars) validateComponents() error {
	var errs []error
	for flag, chosen := range map[string][]string{"without": s.Without, "controllers": s.Controllers} {
		var unknown []string
		for _, name := range trimmed(chosen) {
			if !slices.Contains(names, name) {
				unknown = append(unknown, name)
			}
		}
		errs = append(errs, cli.Need(len(unknown) == 0, // OC-8
			"--%s: unknown controllers: %s; there are %s",
			flag, strings.Join(unknown, ", "), strings.Join(names, ", ")))
	}
	per := s.NodeDeployment.Enabled
	return errors.Join(append(errs,
		cli.Need(len(s.running()) > 0, "--without: nothing is left to run"),
		cli.Need(!per || s.Node,
			"--node-deployment: give --node, for the half of the sidecars that runs on each node"),
		cli.Need(!per || !s.runs(compAttacher) && !s.runs(compResizer) && !s.runs(compHealth),
			"--node-deployment: the attacher, the resizer and the health monitor work for the whole cluster; leave "+
				"them out of --controllers"),
		cli.Need(!s.runs(compSnapshotter) || s.Snapshotter.NodeDeployment == per,
			"--snapshotter-node-deployment=%t: must be that of the provisioner, whose node is in the name of the "+
				"lease; give --node-deployment for both", s.Snapshotter.NodeDeployment),
		cli.Need(!s.runs(compResizer) || !s.Resizer.NodeDeployment || per,
			"--resizer-node-deployment: the resizer works for the whole cluster; leave the flag out"),
		cli.Need(!s.runs(compRegistrar) || s.Registrar.Endpoint != "",
			"--kubelet-registration-path: missing; give the path of the driver's socket as the kubelet sees it, or "+
				"--without=%s", compRegistrar),
		cli.Need(!s.WithMetadata || !s.Node,
			"--snapshot-metadata: the service works for the whole cluster; leave it to the half without --node"),
	)...)
}
