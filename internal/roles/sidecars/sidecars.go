package sidecars

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/controllers/volumelock"
	"github.com/purser-csi/purser/internal/kube"
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
	return &Sidecars{
		Provisioner: provisioner.New(), Attacher: attacher.New(), Resizer: resizer.New(), Snapshotter: snapshotter.New(),
	}
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
--without=snapshotter. The flags are those of csi-provisioner, of expansion and
of snapshots. The service account needs the permissions of every role that runs
(deploy/optional/sidecars.yaml).`,
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
	s.Resizer.Given = f.Changed
}

// Validate implements cli.Role.
func (s *Sidecars) Validate() error {
	errs := []error{s.Provisioner.Validate(), s.Resizer.ValidateExpansion()}
	for _, name := range s.Without {
		errs = append(errs, cli.Need(slices.Contains(names, name), "--without=%s: there are %s", name, strings.Join(names, ", ")))
	}
	return errors.Join(append(errs, cli.Need(!s.NodeDeployment.Enabled,
		"--node-deployment: not with sidecars, whose other roles are not made for every node; run csi-provisioner for it"))...)
}

// Run implements cli.Role.
func (s *Sidecars) Run(ctx context.Context) error {
	s.Locks = &volumelock.Locks{}
	s.Together = provisioner.TogetherSettings{Add: s.add, Longest: s.longestCall(), Trim: trim}
	return s.Provisioner.Run(ctx)
}

// longestCall returns the longest timeout of one call to the driver.
func (s *Sidecars) longestCall() time.Duration { return max(s.Timeout, s.Resizer.LongestCall()) }

// add adds the controllers of the other roles, with the provisioner's workers, timeouts and delays.
func (s *Sidecars) add(ctx context.Context, run *sidecar.Sidecar) error {
	for _, common := range []*sidecar.Common{&s.Attacher.Common, &s.Resizer.Common, &s.Snapshotter.Common} {
		common.Timeout, common.Workers = s.Timeout, s.Pace.Workers
		common.RetryStart, common.RetryMax = s.Pace.RetryStart, s.Pace.RetryMax
	}
	beside := map[string]func(context.Context, *sidecar.Sidecar) error{
		"attacher": s.Attacher.AddBeside, "resizer": s.Resizer.AddBeside, "snapshotter": s.Snapshotter.AddBeside,
	}
	for _, name := range names {
		if slices.Contains(s.Without, name) {
			logr.FromContextOrDiscard(ctx).Info("a role is left out, as --without says", "role", name)
			continue
		}
		if err := beside[name](ctx, run); err != nil {
			return fmt.Errorf("csi-%s: %w", name, err)
		}
	}
	return nil
}

// trim drops managed fields and keeps everything else, since patches are computed from the objects.
// Pods go through kube.TrimPod.
func trim(in any) (any, error) {
	if pod, is := in.(*corev1.Pod); is {
		return kube.TrimPod(pod)
	}
	if object, is := in.(client.Object); is {
		object.SetManagedFields(nil)
	}
	return in, nil
}
