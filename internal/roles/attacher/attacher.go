package attacher

import (
	"context"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/controllers/handoff"
	"github.com/purser-csi/purser/internal/controllers/publish"
	"github.com/purser-csi/purser/internal/core/publishing"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// Attacher is the role csi-attacher: the drop-in for the external-attacher.
type Attacher struct {
	sidecar.Common

	DefaultFSType string
	Together      *handoff.Attachments // with the attach-detach controller of this process; nil for none

	resync        time.Duration
	reconcileSync time.Duration
	maxEntries    int32
	maxLogLength  int
}

var gateTable = cli.GateTable{
	Specs: map[featuregate.Feature]featuregate.FeatureSpec{
		"MutableCSINodeAllocatableCount": {Default: true, PreRelease: featuregate.GA},
		sidecar.GateReleaseLease:         {Default: true, PreRelease: featuregate.Alpha},
	},
	Ignored: cli.LibraryGates,
	Fixed:   []featuregate.Feature{"MutableCSINodeAllocatableCount"},
}

// New returns the role with the default of every setting.
func New() *Attacher {
	a := &Attacher{}
	a.Common = sidecar.NewCommon(sidecar.Kind{
		Name: "csi-attacher", LeasePrefix: "external-attacher-leader-", EventsPrefix: "external-attacher ", Timeout: 15 * time.Second,
		WorkersFlag: "worker-threads", Gates: gateTable, NoEvents: true, Trim: trim, Add: a.add,
		Retired: []string{
			"dummy", "connection-timeout", "leader-election-type", "leader-election-identity", "logtostderr", "alsologtostderr", "stderrthreshold",
			"log_dir", "log_file", "skip_headers",
		},
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
		f.DurationVar(&a.resync, "resync", 10*time.Minute, "has no effect: changes are watched, and no resync is needed")
		f.DurationVar(
			&a.reconcileSync,
			"reconcile-sync",
			time.Minute,
			"pause between two comparisons of the attachments with the driver's ListVolumes, if that has nodes; 0 for none",
		)
		f.Int32Var(&a.maxEntries, "max-entries", 0, "volumes on one page of ListVolumes; 0 leaves it to the driver")
		f.IntVar(&a.maxLogLength, "max-grpc-log-length", -1, "has no effect")
	})
	a.AddCommonFlags(f)
}

// Validate implements cli.Role.
func (a *Attacher) Validate() error {
	return errors.Join(
		a.ValidateCommon(),
		cli.Need(a.maxEntries >= 0, "--max-entries=%d: must not be negative", a.maxEntries),
		cli.Need(a.reconcileSync >= 0, "--reconcile-sync=%s: must not be negative", a.reconcileSync),
	)
}

// add registers the controllers (AT-S3, AT-S4).
func (a *Attacher) add(ctx context.Context, run *sidecar.Work) error {
	has := func(c csi.ControllerServiceCapability_RPC_Type) bool { return run.Driver.Controller[c] }
	rules := publishing.Driver{
		Name: run.Driver.Name, Publishes: has(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME),
		ReadOnly: has(
			csi.ControllerServiceCapability_RPC_PUBLISH_READONLY,
		), MultiWriters: has(csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER),
		DefaultFSType: a.DefaultFSType,
	}
	if !rules.Publishes {
		logr.FromContextOrDiscard(ctx).
			Info("the csi driver attaches nothing: attachments are marked as attached and nothing is called; CSIDriver attachRequired=false saves them")
	}
	var compare publish.Comparison
	if rules.Publishes && has(csi.ControllerServiceCapability_RPC_LIST_VOLUMES) &&
		has(csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES) {
		compare = publish.Comparison{Pause: a.reconcileSync, Entries: a.maxEntries}
	}
	return publish.New(publish.Config{
		Settings: run.Settings, Cached: run.Manager.GetClient(), Live: run.Manager.GetAPIReader(),
		Writer: run.Manager.GetClient(),
		CSI:    run.Conn.Controller(), Calls: run.Calls, Driver: rules, Timeout: a.Timeout, InFlight: run.InFlight,
		Together: a.Together, Compare: compare,
	}).AddTo(ctx, run.Manager)
}

// trim drops managed fields and the annotations of CSI volumes, which say nothing about attaching them.
func trim(in any) (any, error) {
	switch o := in.(type) {
	case *corev1.PersistentVolume:
		o.ManagedFields = nil
		if o.Spec.CSI != nil { // the translation of in-tree volumes needs them
			o.Annotations = nil
		}
	case *storagev1.VolumeAttachment:
		o.ManagedFields = nil
	case *storagev1.CSINode:
		o.ManagedFields, o.Annotations = nil, nil
	}
	return in, nil
}
