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
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/controllers/boundclaim"
	"github.com/purser-csi/purser/internal/controllers/modify"
	"github.com/purser-csi/purser/internal/controllers/resize"
	"github.com/purser-csi/purser/internal/core/attributes"
	"github.com/purser-csi/purser/internal/core/resizing"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// Resizer is the role csi-resizer: the drop-in for the external-resizer.
type Resizer struct {
	sidecar.Common

	ResizeTimeout time.Duration // of ControllerExpandVolume; 0 for Timeout
	ModifyTimeout time.Duration
	WatchPods     bool // --handle-volume-inuse-error
	ExtraMetadata bool

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
		sidecar.GateReleaseLease:  {Default: true, PreRelease: featuregate.Alpha},
	},
	Removed: map[string]string{"RecoverVolumeExpansionFailure": "a failed expansion can always be recovered from (RZ-P2)"},
	Ignored: cli.LibraryGates,
	Fixed:   []featuregate.Feature{sidecar.GateReleaseLease},
}

// New returns the role with the default of every setting.
func New() *Resizer {
	r := &Resizer{}
	r.Common = sidecar.NewCommon(sidecar.Kind{
		Name: "csi-resizer", LeasePrefix: "external-resizer-", EventsPrefix: "external-resizer ", Timeout: 10 * time.Second,
		WorkersFlag: "workers", Gates: gateTable, Trim: trim, Add: r.add,
		Retired: []string{
			"csiTimeout",
			"logtostderr",
			"alsologtostderr",
			"stderrthreshold",
			"log_dir",
			"log_file",
			"skip_headers",
		},
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
		f.DurationVar(&r.resync, "resync-period", 10*time.Minute, "has no effect: changes are watched, and no resync is needed")
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
func (r *Resizer) Validate() error { return errors.Join(r.ValidateCommon(), r.ValidateExpansion()) }

// ValidateExpansion lists the mistakes in the settings of expansion and modification.
func (r *Resizer) ValidateExpansion() error {
	return errors.Join(
		cli.Need(r.ModifyTimeout >= 0, "--modify-timeout=%s: must not be negative", r.ModifyTimeout),
		cli.Need(r.ResizeTimeout >= 0, "--resize-timeout=%s: must not be negative", r.ResizeTimeout))
}

// AddBeside adds the role to the provisioner of the same process. A driver that can neither expand
// nor modify volumes gets no controllers.
func (r *Resizer) AddBeside(ctx context.Context, s *sidecar.Sidecar) error {
	err := r.Common.AddBeside(ctx, s)
	if errors.Is(err, errNothingToDo) {
		logr.FromContextOrDiscard(ctx).Info("the csi driver can neither expand nor modify volumes, so neither is done")
		return nil
	}
	return err
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

var errNothingToDo = errors.New(
	"the csi driver has EXPAND_VOLUME neither in its controller nor on its nodes, and no MODIFY_VOLUME, " +
		"so this program has nothing to do; take it out of the pod",
)

// add registers the controllers (RZ-S2 to RZ-S4).
func (r *Resizer) add(ctx context.Context, run *sidecar.Work) error {
	store := boundclaim.NewStore(boundclaim.Config{
		Cached: run.Manager.GetClient(), Live: run.Manager.GetAPIReader(), Writer: run.Manager.GetClient(),
	})
	controller := run.Driver.Controller[csi.ControllerServiceCapability_RPC_EXPAND_VOLUME]
	if !controller {
		onNode, err := run.Conn.NodeExpands(ctx)
		if err != nil {
			return err
		}
		if !onNode {
			if !run.Driver.Controller[csi.ControllerServiceCapability_RPC_MODIFY_VOLUME] {
				return errNothingToDo
			}
			return r.addModifier(ctx, run, store)
		}
	}
	if err := r.addModifier(ctx, run, store); err != nil {
		return err
	}
	return resize.New(resize.Config{
		Settings: run.Settings, Store: store,
		CSI: run.Conn.Controller(), Calls: run.Calls, Driver: resizing.Driver{
			Name:       run.Driver.Name,
			Controller: controller,
		},
		MultiWriters: run.Driver.Controller[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER],
		Timeout: r.callTimeout(
			r.ResizeTimeout,
		), AnnotateFS: r.Gates.Enabled(gateAnnotateFsResize), WatchPods: r.WatchPods, InFlight: run.InFlight,
	}).AddTo(ctx, run.Manager)
}

// addModifier registers the controller of VolumeAttributesClasses. It also runs for a driver that
// cannot modify volumes, and then emits an event on claims that name a class.
func (r *Resizer) addModifier(ctx context.Context, run *sidecar.Work, store *boundclaim.Store) error {
	if !r.Gates.Enabled(gateVolumeAttributesClass) {
		return nil
	}
	kind := storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass")
	_, err := run.Manager.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) { // RZ-G2
		logr.FromContextOrDiscard(ctx).
			Info("the API server does not serve VolumeAttributesClasses, so volumes are not modified")
		return nil
	}
	// SM-83: without the permission the cache never syncs, and nothing is resized either.
	if missing := readsClasses(ctx, run.API); missing != "" {
		logr.FromContextOrDiscard(ctx).Info("volumes are not modified", "missing permission", missing)
		return nil
	}
	metadata := modify.ParametersOnly
	if r.ExtraMetadata {
		metadata = modify.WithNames
	}
	modifies := run.Driver.Controller[csi.ControllerServiceCapability_RPC_MODIFY_VOLUME]
	return modify.New(modify.Config{
		Settings: run.Settings, Store: store,
		CSI: run.Conn.Controller(), Calls: run.Calls, Driver: attributes.Driver{
			Name:     run.Driver.Name,
			Modifies: modifies,
		},
		Timeout: r.callTimeout(r.ModifyTimeout), Metadata: metadata, InFlight: run.InFlight,
	}).AddTo(ctx, run.Manager)
}

// readsClasses returns the permission on VolumeAttributesClasses that the account lacks; empty for
// none, or if the API server does not say.
func readsClasses(ctx context.Context, api *rest.Config) string {
	var wanted []process.Permission
	for _, verb := range []string{"get", "list", "watch"} {
		wanted = append(wanted, process.Permission{
			Group: storagev1.GroupName, Resource: "volumeattributesclasses", Verb: verb,
		})
	}
	missing, err := process.MissingPermissions(ctx, api, wanted)
	if err != nil || len(missing) == 0 {
		return ""
	}
	return missing[0].String()
}

// trim drops the managed fields of claims and volumes and keeps everything else, since patches are
// computed from them. Pods go through kube.TrimPod.
func trim(in any) (any, error) {
	switch o := in.(type) {
	case *corev1.Pod:
		return kube.TrimPod(o)
	case *corev1.PersistentVolumeClaim:
		o.ManagedFields = nil
	case *corev1.PersistentVolume:
		o.ManagedFields = nil
	}
	return in, nil
}
