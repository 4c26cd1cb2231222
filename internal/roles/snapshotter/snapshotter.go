package snapshotter

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/snapshot"
	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
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
	// Distributed is --enable-distributed-snapshotting, with Controller.
	Distributed bool

	GroupPrefix     string
	GroupUUIDLength int

	// InProcess are the other roles of the process, with Controller; the zero value for none.
	InProcess ColocatedSettings

	resync, wait time.Duration
}

var gateTable = cli.GateTable{
	Specs: map[featuregate.Feature]featuregate.FeatureSpec{
		gateGroups: {Default: true, PreRelease: featuregate.GA},
	},
	Fixed: []featuregate.Feature{gateGroups},
}

// retired are flags of older versions, which charts still set (SN-F26).
var retired = append([]string{
	"snapshotter", "connection-timeout", "create-snapshotcontent-retrycount", "create-snapshotcontent-interval",
}, sidecar.RetiredLogFlags...)

// New returns the role with the default of every setting.
func New() *Snapshotter {
	s := &Snapshotter{}
	s.Common = sidecar.NewCommon(sidecar.Kind{
		Name: "csi-snapshotter", LeasePrefix: "external-snapshotter-leader-", EventsPrefix: "csi-snapshotter ",
		Timeout:     time.Minute,
		WorkersFlag: "worker-threads", Gates: gateTable, Retired: retired, Table: s.table,
	})
	s.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return s
}

// Command returns the command csi-snapshotter.
func Command(program cli.Program) *cobra.Command {
	s := New()
	s.Version = program.Version
	return cli.NewDropInCommand(program, s, &cobra.Command{
		Use:         "csi-snapshotter",
		Annotations: map[string]string{cli.SingleDash: "true"},
		Short:       "Take and delete snapshots of one CSI driver",
		Long: `Take and delete the snapshots that VolumeSnapshotContents ask for, through
one CSI driver.

It replaces upstream's csi-snapshotter of a CSI driver. It works with Purser's
or upstream's snapshot-controller; with --snapshot-controller it is both. Flags
can be written with one dash as well, as upstream's.`,
		Example: `  purser csi-snapshotter --csi-address=/run/csi/socket --leader-election`,
	})
}

// AddFlags binds every setting to its flag (SN-F1 to SN-F10).
func (s *Snapshotter) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Snapshots", func(f *pflag.FlagSet) {
		f.StringVar(
			&s.NamePrefix, "snapshot-name-prefix", "snapshot", "prefix of the names of snapshots on the backend",
		)
		f.IntVar(
			&s.NameUUIDLength,
			"snapshot-name-uuid-length",
			-1,
			"how much of the VolumeSnapshot's uid is in the name; -1 for all of it",
		)
		f.BoolVar(
			&s.ExtraMetadata, "extra-create-metadata", false,
			"pass the names of VolumeSnapshot and content to the driver",
		)
		f.BoolVar(&s.Controller, "snapshot-controller", false,
			"also run the cluster's snapshot-controller; there must be no other")
		f.BoolVar(
			&s.SourceMode,
			"prevent-volume-mode-conversion",
			true,
			"with --snapshot-controller: write the mode of the source volume into the content",
		)
		addControllerFlags(f, &s.Distributed, &s.wait, "with --snapshot-controller: ")
		cli.Marked(f, cli.MarkNew, "enable-distributed-snapshotting", "retry-crd-interval-max")
		f.BoolVar(
			&s.NodeDeployment,
			"node-deployment",
			false,
			"take only snapshots of the node in the environment variable NODE_NAME; run one instance on each node, "+
				"without leader election",
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
		f.DurationVar(
			&s.resync, "resync-period", 15*time.Minute, "has no effect: changes are watched, and no resync is needed",
		)
		cli.Ranged(f, cli.Range{}, "resync-period")
		// With 0 all snapshots would have one name.
		cli.Ranged(
			f, cli.Range{Least: "1", Most: "32", Or: "-1"}, "snapshot-name-uuid-length",
			"groupsnapshot-name-uuid-length",
		)
	})
	s.AddCommonFlags(f)
	addOlderGate(f, s.Gates)
}

// Validate implements cli.Role.
func (s *Snapshotter) Validate() error {
	return errors.Join(s.ValidateCommon(), s.ValidateOwn(),
		cli.Need(!s.NodeDeployment || s.node() != "",
			"--node-deployment: the environment variable NODE_NAME is not set; set it to the node's name"),
		// SN-F8: the lease has no node in its name, so the snapshotter of one node would lead.
		cli.Need(
			!s.NodeDeployment ||
				!s.Election.Enabled, "--node-deployment: one instance works for each node; leave out --leader-election",
		))
}

// ValidateOwn lists the mistakes in the settings of no other role. A role that hosts this one has a
// lease for each node, and checks the node itself.
func (s *Snapshotter) ValidateOwn() error {
	return errors.Join(
		cli.Need(s.NamePrefix != "", "--snapshot-name-prefix: must not be empty"),
		cli.Need(s.GroupPrefix != "", "--groupsnapshot-name-prefix: must not be empty"),
		cli.Need(s.GroupUUIDLength == -1 || s.GroupUUIDLength > 0 && s.GroupUUIDLength <= 32,
			"--groupsnapshot-name-uuid-length=%d: must be -1 or from 1 to 32, or groups would share a name",
			s.GroupUUIDLength),
		cli.Need(s.NameUUIDLength == -1 || s.NameUUIDLength > 0 && s.NameUUIDLength <= 32,
			"--snapshot-name-uuid-length=%d: must be -1 or from 1 to 32, or snapshots would share a name",
			s.NameUUIDLength),
		cli.Need(!s.NodeDeployment || !s.Controller,
			"--node-deployment: run `purser snapshot-controller` once for the cluster, "+
				"without --snapshot-controller here"))
}

// node returns the node of this instance; empty without --node-deployment.
func (s *Snapshotter) node() string {
	if !s.NodeDeployment {
		return ""
	}
	return os.Getenv("NODE_NAME") // SN-N16
}

var errCannotSnapshot = sidecar.NothingToDo{
	Alone: "the csi driver does not have CREATE_DELETE_SNAPSHOT, so this program has nothing to do; " +
		"take it out of the pod",
	Hosted: "the csi driver takes no snapshots, so none are taken",
}

// table lists the controllers (SN-S1, SN-R1): those of contents, and with --snapshot-controller those of
// snapshots.
func (s *Snapshotter) table(ctx context.Context, run *sidecar.Sidecar) ([]registry.Controller, error) {
	var groups bool
	if run.Conn != nil {
		if !run.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT] {
			return nil, errCannotSnapshot
		}
		if s.Gates.Enabled(gateGroups) {
			var err error
			if groups, err = run.Conn.TakesGroups(ctx, run.Driver); err != nil {
				return nil, err
			}
		}
	}
	rows := []registry.Controller{
		{
			Name: snapshot.SidecarName, Capability: csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
			Needs: controllerSettings{together: s.InProcess.Snapshots}.needs(), Absent: absentKinds,
			Grants: grantsOfContents(snapshotv1.GroupName, "volumesnapshot"),
			Fields: []*kube.Fields{
				kube.Whole[snapshotv1.VolumeSnapshotContent](), kube.Whole[snapshotv1.VolumeSnapshotClass](),
			},
			Add: func(ctx context.Context, settings reconcile.Settings) error {
				cfg := s.config(run, settings)
				var err error
				if cfg.Journal, err = s.openJournal(ctx, run); err != nil {
					return err
				}
				return snapshot.NewSidecar(cfg).AddTo(ctx, run.Manager)
			},
		},
		{
			Name: snapshot.GroupSidecarName, Off: !s.Gates.Enabled(gateGroups), Unable: run.Conn != nil && !groups,
			When: "for groups", Needs: groupKinds, Late: true,
			Grants: grantsOfContents(groupv1.GroupName, "volumegroupsnapshot"),
			Fields: []*kube.Fields{
				kube.Whole[groupv1.VolumeGroupSnapshotContent](), kube.Whole[groupv1.VolumeGroupSnapshotClass](),
			},
			Add: func(ctx context.Context, settings reconcile.Settings) error {
				return snapshot.NewGroupSidecar(snapshot.GroupSidecarConfig{
					SidecarConfig: s.config(run, settings), Groups: run.Conn.GroupController(),
					Naming: snapshotting.Naming{Prefix: s.GroupPrefix, Length: s.GroupUUIDLength},
				}).AddTo(ctx, run.Manager)
			},
		},
	}
	return append(rows, controllerRows(run, controllerSettings{
		Settings: snapshotting.Settings{SourceMode: s.SourceMode, Distributed: s.Distributed},
		off:      !s.Controller, groups: s.Gates.Enabled(gateGroups), together: s.InProcess.Snapshots,
	})...), nil
}

// grantsOfContents returns what csi-snapshotter may do with the contents of snapshots or groups.
func grantsOfContents(group, kind string) []registry.Grant {
	return []registry.Grant{
		registry.Allow(group, kind+"classes", registry.Read...),
		registry.Allow(group, kind+"contents", "get", "list", "watch", "patch"),
		registry.Allow(group, kind+"contents/status", "patch"),
	}
}

// config returns what the controllers of contents and of groups share.
func (s *Snapshotter) config(run *sidecar.Sidecar, settings reconcile.Settings) snapshot.SidecarConfig {
	return snapshot.SidecarConfig{
		Settings: settings, Cached: run.Cached, Live: run.Manager.GetAPIReader(),
		Writer: run.Writer,
		ContentSettings: snapshotting.ContentSettings{
			Driver: run.Driver.Name, Naming: snapshotting.Naming{Prefix: s.NamePrefix, Length: s.NameUUIDLength},
			ExtraMetadata: s.ExtraMetadata, Node: s.node(),
			Lists: run.Driver.Controller[csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS],
		},
		CSI: run.Conn.Controller(), Timeout: s.Timeout, Together: s.InProcess.Snapshots,
		Caller: csirpc.NewCaller(csirpc.CallerConfig{
			Locks: run.Config.Locks, InFlight: run.InFlight(), ReadSecret: kube.ReadSecret(run.Manager.GetAPIReader()),
		}),
	}
}
