package attacher

import (
	"context"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/attacher"
	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// Attacher is the role csi-attacher: the drop-in for the external-attacher.
type Attacher struct {
	sidecar.Common

	DefaultFSType string
	InProcess     *handoff.Attachments // with the attach-detach controller of this process; nil for none

	resync        time.Duration
	reconcileSync time.Duration
	maxEntries    int32
	maxLogLength  int
}

var gateTable = cli.GateTable{
	Specs: map[featuregate.Feature]featuregate.FeatureSpec{
		"MutableCSINodeAllocatableCount": {Default: true, PreRelease: featuregate.GA},
	},
	Fixed: []featuregate.Feature{"MutableCSINodeAllocatableCount"},
}

// New returns the role with the default of every setting.
func New() *Attacher {
	a := &Attacher{}
	a.Common = sidecar.NewCommon(sidecar.Kind{
		Name: "csi-attacher", LeasePrefix: "external-attacher-leader-", EventsPrefix: "external-attacher ",
		Timeout:     15 * time.Second,
		WorkersFlag: "worker-threads", Gates: gateTable, NoEvents: true, Table: a.table,
		Retired: append([]string{
			"dummy", "connection-timeout", "leader-election-type", "leader-election-identity",
		}, sidecar.RetiredLogFlags...),
	})
	a.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return a
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	a := New()
	a.Version = program.Version
	return cli.NewDropInCommand(program, a, &cobra.Command{
		Use:         "csi-attacher",
		Annotations: map[string]string{cli.SingleDash: "true"},
		Short:       "Attach and detach volumes of one CSI driver",
		Long: `Attach and detach the volumes that VolumeAttachments name, through one CSI
driver.

It replaces the external-attacher of a CSI driver. Flags can have one dash or
two, as with upstream.`,
		Example: `  purser csi-attacher --csi-address=/run/csi/socket --leader-election`,
	})
}

// AddFlags binds every setting to its flag (AT-F1 to AT-F10).
func (a *Attacher) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Attaching", func(f *pflag.FlagSet) {
		f.StringVar(
			&a.DefaultFSType,
			"default-fstype",
			"",
			"filesystem for volumes whose PersistentVolume names none; empty leaves it to the driver",
		)
		f.DurationVar(
			&a.resync, "resync", 10*time.Minute, "has no effect: changes are watched, and no resync is needed",
		)
		f.DurationVar(
			&a.reconcileSync,
			"reconcile-sync",
			time.Minute,
			"pause between two comparisons of the attachments with the driver's ListVolumes, if that has nodes; 0 "+
				"for none",
		)
		f.Int32Var(&a.maxEntries, "max-entries", 0, "volumes on one page of ListVolumes; 0 leaves it to the driver")
		f.IntVar(&a.maxLogLength, "max-grpc-log-length", -1, "has no effect")
		cli.Ranged(f, cli.Range{}, "resync", "max-grpc-log-length")
		cli.Ranged(f, cli.Range{Least: "0s", Most: "8760h"}, "reconcile-sync")
	})
	a.AddCommonFlags(f)
}

// Validate implements cli.Role.
func (a *Attacher) Validate() error {
	return errors.Join(a.ValidateCommon(), a.ValidateOwn())
}

// ValidateOwn lists the mistakes in the settings of no other role.
func (a *Attacher) ValidateOwn() error {
	return errors.Join(
		cli.Need(a.maxEntries >= 0, "--max-entries=%d: must not be negative", a.maxEntries),
		cli.Need(a.reconcileSync >= 0, "--reconcile-sync=%s: must not be negative", a.reconcileSync),
	)
}

// table lists the controllers (AT-S3, AT-S4, AT-R1).
func (a *Attacher) table(_ context.Context, s *sidecar.Sidecar) ([]registry.Controller, error) {
	return []registry.Controller{{
		Name: attacher.Name,
		Grants: []registry.Grant{
			registry.Allow("", "persistentvolumes", "get", "list", "watch", "patch"),
			registry.Allow(storagev1.GroupName, "csinodes", registry.Read...),
			registry.Allow(storagev1.GroupName, "volumeattachments", "get", "list", "watch", "patch"),
			registry.Allow(storagev1.GroupName, "volumeattachments/status", "patch"),
		},
		Fields: []*kube.Fields{
			kube.PublishedVolumeFields, kube.DriverNodeFields, kube.Whole[storagev1.VolumeAttachment](),
		},
		Add: func(ctx context.Context, settings reconcile.Settings) error { return a.add(ctx, s, settings) },
	}}, nil
}

func (a *Attacher) add(ctx context.Context, s *sidecar.Sidecar, settings reconcile.Settings) error {
	has := func(c csi.ControllerServiceCapability_RPC_Type) bool { return s.Driver.Controller[c] }
	rules := publishing.Driver{
		Name: s.Driver.Name, Publishes: has(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME),
		ReadOnly:      has(csi.ControllerServiceCapability_RPC_PUBLISH_READONLY),
		MultiWriters:  has(csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER),
		DefaultFSType: a.DefaultFSType,
	}
	if !rules.Publishes {
		logr.FromContextOrDiscard(ctx).Info("the csi driver attaches nothing: attachments are marked as attached and " +
			"nothing is called; CSIDriver attachRequired=false saves them")
	}
	var compare attacher.Comparison
	if rules.Publishes && has(csi.ControllerServiceCapability_RPC_LIST_VOLUMES) &&
		has(csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES) {
		compare = attacher.Comparison{Pause: a.reconcileSync, Entries: a.maxEntries}
	}
	return attacher.New(attacher.Config{
		Settings: settings, Cached: s.Cached, Live: s.Manager.GetAPIReader(),
		Writer: s.Writer,
		CSI:    s.Conn.Controller(), Calls: s.Config.Locks, Driver: rules, Timeout: a.Timeout, InFlight: s.InFlight(),
		InProcess: a.InProcess, Compare: compare,
	}).AddTo(ctx, s.Manager)
}
