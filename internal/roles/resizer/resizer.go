package resizer

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/resize"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// Resizer is the role csi-resizer: the drop-in for the external-resizer.
type Resizer struct {
	sidecar.Common

	ResizeTimeout  time.Duration // of ControllerExpandVolume; 0 for Timeout
	ModifyTimeout  time.Duration
	WatchPods      bool // --handle-volume-inuse-error
	ExtraMetadata  bool
	NodeDeployment bool // one instance on each node, for the volumes of that node

	resync time.Duration
}

// Gates of external-resizer 2.3 (RZ-G1 to RZ-G4).
const (
	gateAnnotateFsResize      featuregate.Feature = "AnnotateFsResize"
	gateVolumeAttributesClass featuregate.Feature = "VolumeAttributesClass"
)

var gateTable = cli.GateTable{
	Specs: map[featuregate.Feature]featuregate.FeatureSpec{
		gateAnnotateFsResize:      {Default: true, PreRelease: featuregate.GA},
		gateVolumeAttributesClass: {Default: true, PreRelease: featuregate.GA},
	},
	Removed: map[string]string{
		"RecoverVolumeExpansionFailure": "a failed expansion can always be recovered from (RZ-P2)",
	},
	Fixed: []featuregate.Feature{sidecar.GateReleaseLease},
}

// New returns the role with the default of every setting.
func New() *Resizer {
	r := &Resizer{}
	r.Common = sidecar.NewCommon(sidecar.Kind{
		Name: "csi-resizer", LeasePrefix: "external-resizer-", EventsPrefix: "external-resizer ",
		Timeout:     10 * time.Second,
		WorkersFlag: "workers", Gates: gateTable, Table: r.table, LongestCall: r.LongestCall,
		Retired: append([]string{"csiTimeout"}, sidecar.RetiredLogFlags...),
	})
	r.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return r
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	r := New()
	r.Version = program.Version
	return cli.NewDropInCommand(program, r, &cobra.Command{
		Use:         "csi-resizer",
		Annotations: map[string]string{cli.SingleDash: "true"},
		Short:       "Expand and modify volumes of one CSI driver",
		Long: `Expand the volumes of claims that ask for more, and apply the
VolumeAttributesClass that a claim names, through one CSI driver.

It replaces the external-resizer of a CSI driver. Flags can have one dash or
two, as with upstream.`,
		Example: `  purser csi-resizer --csi-address=/run/csi/socket --leader-election`,
	})
}

// AddFlags binds every setting to its flag.
func (r *Resizer) AddFlags(f *pflag.FlagSet) {
	r.AddExpansionFlags(f)
	cli.Grouped(f, "Expansion", func(f *pflag.FlagSet) {
		f.DurationVar(
			&r.resync, "resync-period", 10*time.Minute, "has no effect: changes are watched, and no resync is needed",
		)
		cli.Ranged(f, cli.Range{}, "resync-period")
		f.BoolVar(
			&r.NodeDeployment,
			"node-deployment",
			false,
			"serve only volumes of the node in the environment variable NODE_NAME, through the driver on that node; "+
				"run one instance on each node, without leader election",
		)
		cli.Marked(f, cli.MarkNew, "node-deployment")
	})
	r.AddCommonFlags(f)
}

// AddExpansionFlags binds the settings of expansion and modification to their flags. `plane` has
// them as well.
func (r *Resizer) AddExpansionFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Expansion", func(f *pflag.FlagSet) {
		f.DurationVar(
			&r.ResizeTimeout,
			"resize-timeout",
			0,
			"timeout of ControllerExpandVolume; --timeout overrides it if given; 0 for --timeout",
		)
		f.DurationVar(
			&r.ModifyTimeout,
			"modify-timeout",
			0,
			"timeout of ControllerModifyVolume; --timeout overrides it if given; 0 for --timeout",
		)
		f.BoolVar(
			&r.WatchPods,
			"handle-volume-inuse-error",
			true,
			"watch pods; if the driver refuses to expand a volume that is in use, wait until its pods have ended",
		)
		f.BoolVar(
			&r.ExtraMetadata,
			"extra-modify-metadata",
			false,
			"pass the names of claim and volume to the driver when it modifies one",
		)
	})
}

// Validate implements cli.Role.
func (r *Resizer) Validate() error {
	return errors.Join(r.ValidateCommon(), r.ValidateExpansion(), r.validateNode())
}

// ValidateExpansion lists the mistakes in the settings of expansion and modification.
func (r *Resizer) ValidateExpansion() error {
	return errors.Join(
		cli.Need(r.ModifyTimeout >= 0, "--modify-timeout=%s: must not be negative", r.ModifyTimeout),
		cli.Need(r.ResizeTimeout >= 0, "--resize-timeout=%s: must not be negative", r.ResizeTimeout))
}

// LongestCall returns the longest time of one call to the driver.
func (r *Resizer) LongestCall() time.Duration {
	return max(r.callTimeout(r.ResizeTimeout), r.callTimeout(r.ModifyTimeout))
}

// callTimeout returns the timeout of a call with a flag of its own (RZ-F1, RZ-F2).
func (r *Resizer) callTimeout(own time.Duration) time.Duration {
	if r.Given("timeout") {
		return r.Timeout
	}
	return cmp.Or(own, r.Timeout)
}

var errNothingToDo = sidecar.NothingToDo{
	Alone: "the csi driver has EXPAND_VOLUME neither in its controller nor on its nodes, and no MODIFY_VOLUME, " +
		"so this program has nothing to do; take it out of the pod",
	Hosted: "the csi driver can neither expand nor modify volumes, so neither is done",
}

// table lists the controllers (RZ-S2 to RZ-S4, RZ-R1). That of VolumeAttributesClasses also runs for a
// driver that expands volumes and cannot modify them, and then emits an event on claims that name a class.
func (r *Resizer) table(ctx context.Context, s *sidecar.Sidecar) ([]registry.Controller, error) {
	expands := s.Driver.Controller[csi.ControllerServiceCapability_RPC_EXPAND_VOLUME]
	if !expands && s.Conn != nil {
		var err error
		if expands, err = s.Conn.NodeExpands(ctx); err != nil {
			return nil, err
		}
		if !expands && !s.Driver.Controller[csi.ControllerServiceCapability_RPC_MODIFY_VOLUME] {
			return nil, errNothingToDo
		}
	}
	shared := []registry.Grant{
		registry.Allow("", "persistentvolumes", "get", "list", "watch", "patch"),
		registry.Allow("", "persistentvolumeclaims", registry.Read...),
		registry.Allow("", "persistentvolumeclaims/status", "patch"),
	}
	return []registry.Controller{
		{
			Name: resize.AttributesName, Off: !r.Gates.Enabled(gateVolumeAttributesClass),
			Needs:  []schema.GroupVersionKind{storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass")}, // RZ-G2
			Absent: "the API server does not serve VolumeAttributesClasses, so volumes are not modified",
			Grants: append(shared, classGrant),
			Fields: r.fields(),
			Add: func(ctx context.Context, settings reconcile.Settings) error {
				return r.addModifier(ctx, s, newStore(s), settings)
			},
		},
		{
			Name: resize.Name, Unable: !expands && s.Conn != nil,
			Grants: append(shared, registry.Allow("", "pods", registry.Read...).
				If(r.WatchPods, "with --handle-volume-inuse-error")),
			Fields: r.fields(),
			Add: func(ctx context.Context, settings reconcile.Settings) error {
				return r.addExpansion(ctx, s, newStore(s), settings)
			},
		},
	}, nil
}

func newStore(s *sidecar.Sidecar) resize.Store {
	return resize.Store{Cached: s.Cached, Live: s.Manager.GetAPIReader(), Writer: s.Writer}
}

func (r *Resizer) addExpansion(
	ctx context.Context, s *sidecar.Sidecar, store resize.Store, settings reconcile.Settings,
) error {
	here, err := r.here(ctx, s)
	if err != nil {
		return err
	}
	return resize.New(resize.Config{
		Settings: settings, Here: here, Store: store, CSI: s.Conn.Controller(), Calls: s.Config.Locks,
		Driver: resizing.Driver{
			Name: s.Driver.Name, Controller: s.Driver.Controller[csi.ControllerServiceCapability_RPC_EXPAND_VOLUME],
		},
		MultiWriters: s.Driver.Controller[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER],
		Timeout:      r.callTimeout(r.ResizeTimeout), AnnotateFS: r.Gates.Enabled(gateAnnotateFsResize),
		WatchPods: r.WatchPods, InFlight: s.InFlight(),
	}).AddTo(ctx, s.Manager)
}

func (r *Resizer) addModifier(
	ctx context.Context, s *sidecar.Sidecar, store resize.Store, settings reconcile.Settings,
) error {
	// SM-83: without the permission the cache never syncs, and nothing is resized either.
	if missing := readsClasses(ctx, s.API); missing != "" {
		logr.FromContextOrDiscard(ctx).Info("volumes are not modified", "missing permission", missing)
		return nil
	}
	metadata := resize.ParametersOnly
	if r.ExtraMetadata {
		metadata = resize.WithNames
	}
	here, err := r.here(ctx, s)
	if err != nil {
		return err
	}
	return resize.NewAttributes(resize.AttributesConfig{
		Settings: settings, Here: here, Store: store, CSI: s.Conn.Controller(), Calls: s.Config.Locks,
		Driver: resizing.AttributesDriver{
			Name: s.Driver.Name, Modifies: s.Driver.Controller[csi.ControllerServiceCapability_RPC_MODIFY_VOLUME],
		},
		Timeout: r.callTimeout(r.ModifyTimeout), Metadata: metadata, InFlight: s.InFlight(),
	}).AddTo(ctx, s.Manager)
}

var classGrant = registry.Allow(storagev1.GroupName, "volumeattributesclasses", registry.Read...)

// readsClasses returns the permission on VolumeAttributesClasses that the account lacks; empty for
// none, or if the API server does not say.
func readsClasses(ctx context.Context, api *rest.Config) string {
	wanted := registry.Permissions([]registry.Grant{classGrant})
	missing, err := process.MissingPermissions(ctx, api, wanted)
	if err != nil || len(missing) == 0 {
		return ""
	}
	return missing[0].String()
}
