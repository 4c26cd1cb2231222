package snapshotter

import (
	"context"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/snapshot"
	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Lease is the name of the snapshot-controller's lease, as upstream's (SN-M3).
const Lease = "snapshot-controller-leader"

// Controller is the role snapshot-controller: the drop-in for upstream's. It calls no driver.
type Controller struct {
	sidecar.Common

	SourceMode bool
	// Distributed is --enable-distributed-snapshotting.
	Distributed bool

	resync, wait time.Duration
}

// NewController returns the role with the default of every setting.
func NewController() *Controller {
	c := &Controller{}
	c.Common = sidecar.NewCommon(sidecar.Kind{
		Name: "snapshot-controller", LeasePrefix: Lease, EventsPrefix: "snapshot-controller", NoDriver: true,
		WorkersFlag: "worker-threads", Gates: gateTable, Retired: retired, Table: c.table,
	})
	c.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return c
}

// ControllerCommand returns the command snapshot-controller.
func ControllerCommand(program cli.Program) *cobra.Command {
	s := NewController()
	s.Version = program.Version
	return cli.NewDropInCommand(program, s, &cobra.Command{
		Use:         "snapshot-controller",
		Annotations: map[string]string{cli.SingleDash: "true"},
		Short:       "Bind VolumeSnapshots to their contents, for all drivers",
		Long: `Create and bind the contents of VolumeSnapshots, for all drivers of a cluster.

It replaces upstream's snapshot-controller, and works with Purser's or
upstream's csi-snapshotter. Flags can have one dash or two, as with upstream.`,
		Example: `  purser snapshot-controller --leader-election`,
	})
}

// AddFlags binds every setting to its flag (SN-F20 to SN-F25).
func (c *Controller) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Snapshots", func(f *pflag.FlagSet) {
		f.BoolVar(
			&c.SourceMode,
			"prevent-volume-mode-conversion",
			true,
			"write down the mode of the source volume, for the provisioner to compare",
		)
		addControllerFlags(f, &c.Distributed, &c.wait, "")
		f.DurationVar(
			&c.resync, "resync-period", 15*time.Minute, "has no effect: changes are watched, and no resync is needed",
		)
		cli.Ranged(f, cli.Range{}, "resync-period")
	})
	c.AddCommonFlags(f)
	addOlderGate(f, c.Gates)
}

// addControllerFlags adds flags of the snapshot-controller that csi-snapshotter has for the one in its
// process.
func addControllerFlags(f *pflag.FlagSet, distributed *bool, wait *time.Duration, when string) {
	f.BoolVar(
		distributed,
		"enable-distributed-snapshotting",
		false,
		when+"label the content of a node-local volume with a node, whose csi-snapshotter takes the snapshot; "+
			"needs permission to list nodes",
	)
	f.DurationVar(
		wait, "retry-crd-interval-max", 30*time.Second, "has no effect: the program waits for the custom resources",
	)
	cli.Ranged(f, cli.Range{}, "retry-crd-interval-max")
}

// Validate implements cli.Role.
func (c *Controller) Validate() error { return c.ValidateCommon() }

// table lists the controllers (SN-R2).
func (c *Controller) table(_ context.Context, run *sidecar.Sidecar) ([]registry.Controller, error) {
	return controllerRows(run, controllerSettings{
		Settings: snapshotting.Settings{SourceMode: c.SourceMode, Distributed: c.Distributed},
		groups:   c.Gates.Enabled(gateGroups),
	}), nil
}

// controllerSettings are the flags of the snapshot-controller, which csi-snapshotter has too.
type controllerSettings struct {
	snapshotting.Settings
	off    bool // not in this process
	groups bool // the feature gate
	// together is what the roles of the process know of snapshots; nil for none.
	together *handoff.Snapshots
}

// controllerRows returns the controllers of snapshots and of groups, which are one object.
func controllerRows(run *sidecar.Sidecar, with controllerSettings) []registry.Controller {
	var controller *snapshot.Controller
	return []registry.Controller{
		{
			Name: snapshot.ControllerName, Off: with.off, Needs: with.needs(), Absent: absentKinds,
			Grants: []registry.Grant{
				registry.Allow("", "persistentvolumes", registry.Read...),
				registry.Allow("", "persistentvolumeclaims", "get", "list", "watch", "update"),
				registry.Allow("", "nodes", registry.Read...).By("deploy/optional/snapshot-controller-nodes.yaml").
					If(with.Distributed, "with --enable-distributed-snapshotting"),
				registry.Allow(snapshotv1.GroupName, "volumesnapshotclasses", registry.Read...),
				registry.Allow(snapshotv1.GroupName, "volumesnapshotcontents",
					"get", "list", "watch", "create", "patch", "delete"),
				registry.Allow(snapshotv1.GroupName, "volumesnapshotcontents/status", "patch"),
				registry.Allow(
					snapshotv1.GroupName, "volumesnapshots", "get", "list", "watch", "create", "patch", "delete",
				),
				registry.Allow(snapshotv1.GroupName, "volumesnapshots/status", "patch"),
			},
			Fields: with.reads(),
			Add: func(ctx context.Context, settings reconcile.Settings) error {
				mode := with.Settings
				if with.together != nil {
					mode.Together = run.Driver.Name
				}
				controller = snapshot.NewController(snapshot.ControllerConfig{
					Settings: settings, Mode: mode, Together: with.together,
					Cached: run.Cached, Live: run.Manager.GetAPIReader(), Writer: run.Writer,
					Operations: telemetry.NewSnapshotOperations(run.Registry),
				})
				return controller.AddTo(ctx, run.Manager)
			},
		},
		{
			Name: snapshot.GroupControllerName, Off: with.off ||
				!with.groups, When: "for groups", Needs: groupKinds, Late: true,
			Grants: []registry.Grant{
				registry.Allow(groupv1.GroupName, "volumegroupsnapshotclasses", registry.Read...),
				registry.Allow(groupv1.GroupName, "volumegroupsnapshotcontents",
					"get", "list", "watch", "create", "patch", "delete"),
				registry.Allow(groupv1.GroupName, "volumegroupsnapshotcontents/status", "patch"),
				registry.Allow(groupv1.GroupName, "volumegroupsnapshots", "get", "list", "watch", "patch"),
				registry.Allow(groupv1.GroupName, "volumegroupsnapshots/status", "patch"),
			},
			Fields: []*kube.Fields{
				kube.Whole[groupv1.VolumeGroupSnapshot](), kube.Whole[groupv1.VolumeGroupSnapshotContent](),
				kube.Whole[groupv1.VolumeGroupSnapshotClass](),
			},
			Add: func(ctx context.Context, _ reconcile.Settings) error {
				return controller.Groups().AddTo(ctx, run.Manager)
			},
		},
	}
}
