package snapshotter

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/controllers/snapshotting"
	core "github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Snapshotter is the role csi-snapshotter: the drop-in for the sidecar of that name. It can run the
// snapshot-controller as well.
type Snapshotter struct {
	sidecar.Common

	NamePrefix     string
	NameUUIDLength int
	ExtraMetadata  bool
	NodeDeployment bool
	// Controller adds the snapshot-controller to the process.
	Controller bool
	SourceMode bool // --prevent-volume-mode-conversion, with Controller

	GroupPrefix     string
	GroupUUIDLength int

	resync time.Duration
}

var gateTable = cli.GateTable{
	Specs: map[featuregate.Feature]featuregate.FeatureSpec{
		gateGroups:               {Default: true, PreRelease: featuregate.GA},
		sidecar.GateReleaseLease: {Default: true, PreRelease: featuregate.Alpha},
	},
	Ignored: cli.LibraryGates,
	Fixed:   []featuregate.Feature{gateGroups},
}

// retired are flags of older versions, which charts still set (SN-F26).
var retired = []string{
	"snapshotter", "connection-timeout", "create-snapshotcontent-retrycount", "create-snapshotcontent-interval",
	"logtostderr", "alsologtostderr", "stderrthreshold", "log_dir", "log_file", "skip_headers",
}

// New returns the role with the default of every setting.
func New() *Snapshotter {
	s := &Snapshotter{}
	s.Common = sidecar.NewCommon(sidecar.Kind{
		Name: "csi-snapshotter", LeasePrefix: "external-snapshotter-leader-", EventsPrefix: "csi-snapshotter ", Timeout: time.Minute,
		WorkersFlag: "worker-threads", Gates: gateTable, Retired: retired, Trim: trim, Add: s.add,
	})
	s.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return s
}

// Command returns the command csi-snapshotter.
func Command(program cli.Program) *cobra.Command {
	s := New()
	s.Version = program.Version
	c := &cobra.Command{
		Use: "csi-snapshotter", GroupID: cli.GroupRun, Args: cli.NoArguments,
		Annotations: map[string]string{cli.SingleDash: "true"},
		Short:       "Take and delete snapshots of one CSI driver",
		Long: `Take and delete the snapshots that VolumeSnapshotContents ask for, through
one CSI driver.

It replaces upstream's csi-snapshotter of a CSI driver. It works with Purser's
or upstream's snapshot-controller; with --snapshot-controller it is both. Flags
can be written with one dash as well, as upstream's.`,
		Example: `  purser csi-snapshotter --csi-address=/run/csi/socket --leader-election`,
		Version: program.Version,
		RunE:    cli.Run(s),
	}
	s.AddFlags(c.Flags())
	c.SetVersionTemplate(program.Name + " {{.Version}}\n")
	return c
}

// AddFlags binds every setting to its flag (SN-F1 to SN-F10).
func (s *Snapshotter) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Snapshots", func(f *pflag.FlagSet) {
		f.StringVar(&s.NamePrefix, "snapshot-name-prefix", "snapshot", "prefix of the names of snapshots on the backend")
		f.IntVar(
			&s.NameUUIDLength,
			"snapshot-name-uuid-length",
			-1,
			"how much of the VolumeSnapshot's uid is in the name; -1 for all of it",
		)
		f.BoolVar(&s.ExtraMetadata, "extra-create-metadata", false, "pass the names of VolumeSnapshot and content to the driver")
		f.BoolVar(&s.Controller, "snapshot-controller", false,
			"also run the cluster's snapshot-controller; there must be no other")
		f.BoolVar(
			&s.SourceMode,
			"prevent-volume-mode-conversion",
			true,
			"with --snapshot-controller: write the mode of the source volume into the content",
		)
		f.BoolVar(
			&s.NodeDeployment,
			"node-deployment",
			false,
			"take only snapshots of the node in the environment variable NODE_NAME; run one instance on each node, without leader election",
		)
		f.StringVar(
			&s.GroupPrefix,
			"groupsnapshot-name-prefix",
			"groupsnapshot",
			"prefix of the names of group snapshots on the backend",
		)
		f.IntVar(
			&s.GroupUUIDLength,
			"groupsnapshot-name-uuid-length",
			-1,
			"how much of the VolumeGroupSnapshot's uid is in the name; -1 for all of it",
		)
		f.DurationVar(&s.resync, "resync-period", 15*time.Minute, "has no effect: changes are watched, and no resync is needed")
	})
	s.AddCommonFlags(f)
	addOlderGate(f, s.Gates)
}

// Validate implements cli.Role.
func (s *Snapshotter) Validate() error {
	return errors.Join(s.ValidateCommon(),
		cli.Need(s.NamePrefix != "", "--snapshot-name-prefix: must not be empty"),
		cli.Need(s.GroupPrefix != "", "--groupsnapshot-name-prefix: must not be empty"),
		cli.Need(s.GroupUUIDLength == -1 || s.GroupUUIDLength > 0 && s.GroupUUIDLength <= 32,
			"--groupsnapshot-name-uuid-length=%d: must be -1 or from 1 to 32, or groups would share a name", s.GroupUUIDLength),
		cli.Need(s.NameUUIDLength == -1 || s.NameUUIDLength > 0 && s.NameUUIDLength <= 32,
			"--snapshot-name-uuid-length=%d: must be -1 or from 1 to 32, or snapshots would share a name", s.NameUUIDLength),
		cli.Need(!s.NodeDeployment || s.node() != "",
			"--node-deployment: the environment variable NODE_NAME is not set; set it to the node's name"),
		cli.Need(!s.NodeDeployment || !s.Election.Enabled, "--node-deployment: one instance works for each node; leave out --leader-election"),
		cli.Need(!s.NodeDeployment || !s.Controller, "--node-deployment: run `purser snapshot-controller` once for the cluster, "+
			"without --snapshot-controller here"))
}

// node returns the node of this instance; empty without --node-deployment.
func (s *Snapshotter) node() string {
	if !s.NodeDeployment {
		return ""
	}
	return os.Getenv("NODE_NAME") // SN-N16
}

var errCannotSnapshot = errors.New(
	"the csi driver does not have CREATE_DELETE_SNAPSHOT, so this program has nothing to do; take it out of the pod",
)

// AddBeside adds the role to the provisioner of the same process. A driver that takes no snapshots
// gets no controllers.
func (s *Snapshotter) AddBeside(ctx context.Context, run *sidecar.Sidecar) error {
	err := s.Common.AddBeside(ctx, run)
	if errors.Is(err, errCannotSnapshot) {
		logr.FromContextOrDiscard(ctx).Info("the csi driver takes no snapshots, so none are taken")
		return nil
	}
	return err
}

// add registers the controllers (SN-S1).
func (s *Snapshotter) add(ctx context.Context, run *sidecar.Work) error {
	if !run.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT] {
		return errCannotSnapshot
	}
	cfg := snapshotting.SidecarConfig{
		Settings: run.Settings, Cached: run.Manager.GetClient(), Live: run.Manager.GetAPIReader(),
		Writer: run.Manager.GetClient(),
		ContentSettings: core.ContentSettings{
			Driver: run.Driver.Name, Naming: core.Naming{Prefix: s.NamePrefix, Length: s.NameUUIDLength},
			ExtraMetadata: s.ExtraMetadata, Node: s.node(),
			Lists: run.Driver.Controller[csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS],
		},
		CSI: run.Conn.Controller(), Timeout: s.Timeout,
		Caller: csirpc.NewCaller(csirpc.CallerConfig{
			Locks: run.Calls, InFlight: run.InFlight, ReadSecret: kube.ReadSecret(run.Manager.GetAPIReader()),
		}),
	}
	err := errors.Join(snapshotting.NewSidecar(cfg).AddTo(run.Manager), s.takeGroups(ctx, run, cfg))
	if err != nil || !s.Controller {
		return err
	}
	controller := snapshotting.NewController(snapshotting.ControllerConfig{
		Settings: run.Settings, Mode: core.Settings{SourceMode: s.SourceMode},
		Cached: run.Manager.GetClient(), Live: run.Manager.GetAPIReader(), Writer: run.Manager.GetClient(),
		Operations: telemetry.NewSnapshotOperations(run.Registry),
	})
	return errors.Join(controller.AddTo(ctx, run.Manager), followGroups(run.Manager, s.Gates, controller))
}

// trim drops managed fields and keeps everything else, since patches are computed from the objects.
func trim(in any) (any, error) {
	switch o := in.(type) {
	case *corev1.PersistentVolumeClaim:
		o.ManagedFields = nil
	case *snapshotv1.VolumeSnapshot:
		o.ManagedFields = nil
	case *snapshotv1.VolumeSnapshotContent:
		o.ManagedFields = nil
	case *snapshotv1.VolumeSnapshotClass:
		o.ManagedFields = nil
	case *groupv1.VolumeGroupSnapshot:
		o.ManagedFields = nil
	case *groupv1.VolumeGroupSnapshotContent:
		o.ManagedFields = nil
	case *groupv1.VolumeGroupSnapshotClass:
		o.ManagedFields = nil
	case *corev1.PersistentVolume:
		o.ManagedFields = nil
	}
	return in, nil
}
