package sidecars

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/healthmonitor"
	"github.com/purser-csi/purser/internal/roles/livenessprobe"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/registrar"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/roles/snapshotmetadata"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
)

// Sidecars is the role sidecars. Its flags are those of all its components.
type Sidecars struct {
	*provisioner.Provisioner
	Attacher    *attacher.Attacher
	Resizer     *resizer.Resizer
	Snapshotter *snapshotter.Snapshotter
	Health      *healthmonitor.Monitor
	Registrar   *registrar.Role
	Liveness    *livenessprobe.Role
	Metadata    *snapshotmetadata.Role

	Node         bool     // --node
	Without      []string // --without
	Controllers  []string // --controllers
	WithMetadata bool     // --snapshot-metadata

	overrides cli.Overrides
	given     func(flag string) bool // reports whether the command line sets the flag
}

// New returns the role with the default of every setting.
func New() *Sidecars {
	s := &Sidecars{
		Provisioner: provisioner.New(), Attacher: attacher.New(), Resizer: resizer.New(),
		Snapshotter: snapshotter.New(), Health: healthmonitor.New(),
		Registrar: registrar.New(), Liveness: livenessprobe.New(), Metadata: snapshotmetadata.New(),
		given: func(string) bool { return false },
	}
	s.Gates.Include(s.Attacher.Gates, s.Resizer.Gates, s.Snapshotter.Gates, s.Health.Gates)
	s.Registrar.Notices, s.Liveness.Notices, s.Health.Notices = s.Notices, s.Notices, s.Notices
	s.Metadata.Notices = s.Notices
	return s
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	s := New()
	s.Version = program.Version
	return cli.NewRoleCommand(program, s, &cobra.Command{
		Use:   "sidecars",
		Short: "All sidecars of one CSI driver in one process",
		Long: `All sidecars of one CSI driver in one process beside it: one connection, one
cache, one HTTP server, and one lease, which is that of csi-provisioner, or
without it that of the first component that runs. No other sidecar of the kinds
that run may run for the driver.

Beside the controller of the driver these are csi-provisioner, csi-attacher,
csi-resizer, csi-snapshotter, csi-external-health-monitor-controller and
livenessprobe, and with --snapshot-metadata csi-snapshot-metadata. With --node,
for the driver on each node, these are node-driver-registrar and livenessprobe,
and with --node-deployment csi-provisioner and csi-snapshotter of the node too.

Sidecars for capabilities that the driver lacks are not started. The
snapshotter needs the custom resources of snapshots; without them, add
--without=snapshotter. The flags and feature gates are those of all roles; a
flag that several of them have is for all of them, and --COMPONENT-FLAG, such
as --attacher-timeout, for one alone. Each component has its health at
/healthz/COMPONENT. livenessprobe is there too, and at /healthz of
--health-port. The service account needs the permissions of every role that
runs (deploy/optional/sidecars.yaml).`,
		Example: `  purser sidecars --csi-address=/run/csi/socket --leader-election
  purser sidecars --node --csi-address=/csi/csi.sock --health-port=9808 \
    --kubelet-registration-path=/var/lib/kubelet/plugins/csi.example.com/csi.sock`,
	})
}

// Validate implements cli.Role.
func (s *Sidecars) Validate() error {
	errs := []error{
		s.overrides.Apply(), s.validateComponents(), s.Provisioner.Validate(), s.Resizer.ValidateExpansion(),
		s.Liveness.ValidateOwn(), s.Health.ValidateOwn(),
	}
	if s.runs(compAttacher) {
		errs = append(errs, s.Attacher.ValidateOwn())
	}
	if s.runs(compSnapshotter) {
		errs = append(errs, s.Snapshotter.ValidateOwn())
	}
	if s.runs(compRegistrar) {
		errs = append(errs, s.Registrar.ValidateOwn())
	}
	if s.runs(compMetadata) {
		errs = append(errs, s.Metadata.ValidateOwn())
	}
	return errors.Join(errs...)
}

// Run implements cli.Role.
func (s *Sidecars) Run(ctx context.Context) error {
	ctx, err := s.StartLogging(ctx, s.Log)
	if err != nil {
		return err
	}
	s.Log, s.Notices = logr.FromContextOrDiscard(ctx), &cli.Notices{} // they are logged already
	var sent func()
	s.Tracing, sent = process.StartTracing(ctx, "sidecars", s.Version, s.TraceSettings)
	defer sent()
	if s.Shared, err = s.NewSharedDriver("sidecars"); err != nil {
		return err
	}
	defer s.Shared.Conn.Close()
	s.InProcess.Attacher = s.runs(compAttacher)
	s.Host(s.hosted()...)
	if err := s.overrides.Apply(); err != nil { // after the settings of all
		return err
	}
	return s.runParts(ctx)
}

// hosted returns the components that run and that the provisioner's manager hosts.
func (s *Sidecars) hosted() (running []*sidecar.Common) {
	roles := map[string]*sidecar.Common{
		compAttacher: &s.Attacher.Common, compResizer: &s.Resizer.Common, compSnapshotter: &s.Snapshotter.Common,
		compHealth: &s.Health.Common,
	}
	for _, name := range withControllers {
		if role := roles[name]; role != nil && s.runs(name) {
			running = append(running, role)
		}
	}
	return running
}
