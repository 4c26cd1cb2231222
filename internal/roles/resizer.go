package roles

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

	"github.com/purser-csi/purser/internal/controllers/resize"
	"github.com/purser-csi/purser/internal/core/resizing"
	"github.com/purser-csi/purser/internal/kube"
)

// Resizer is the role csi-resizer: the drop-in for the external-resizer.
type Resizer struct {
	sidecar

	ResizeTimeout time.Duration // of ControllerExpandVolume; 0 for Timeout
	ModifyTimeout time.Duration
	WatchPods     bool // --handle-volume-inuse-error
	ExtraMetadata bool
	resync        time.Duration

	given func(flag string) bool // reports whether the command line has it
}

// Gates of external-resizer 2.3 (RZ-G1 to RZ-G4).
const (
	gateAnnotateFsResize = "AnnotateFsResize"
	gateRecoverExpansion = "RecoverVolumeExpansionFailure"
)

// NewResizer returns the role with the default of every setting.
func NewResizer() *Resizer {
	r := &Resizer{}
	r.sidecar = newSidecar(sidecarKind{
		name: "csi-resizer", leasePrefix: "external-resizer-", eventsPrefix: "external-resizer ", timeout: 10 * time.Second, workersFlag: "workers",
		retired: []string{"csiTimeout", "logtostderr", "alsologtostderr", "stderrthreshold", "log_dir", "log_file", "skip_headers"}, trim: trimForResizer, add: r.add,
	})
	r.gates.known = map[string]bool{gateAnnotateFsResize: true, string(GateVolumeAttributesClass): true, string(GateReleaseLeaseOnShutdown): true}
	r.gates.removed = []string{gateRecoverExpansion}
	r.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return r
}

func newResizer(program Program) *cobra.Command {
	r := NewResizer()
	r.Version = program.Version
	c := &cobra.Command{
		Use: "csi-resizer", GroupID: groupRun, Args: noArguments,
		Short: "Expand volumes of one CSI driver",
		Long: `Expand the volumes of claims that ask for more, through one CSI driver.

It takes the place of the external-resizer beside a CSI driver. Flags can be
written with one dash as well, as upstream's.`,
		Example: `  purser csi-resizer --csi-address=/run/csi/socket --leader-election`,
		Version: program.Version,
		RunE:    run(r),
	}
	r.AddFlags(c.Flags())
	c.SetVersionTemplate(program.Name + " {{.Version}}\n")
	return c
}

// AddFlags binds every setting to its flag.
func (r *Resizer) AddFlags(f *pflag.FlagSet) {
	r.given = f.Changed
	grouped(f, "Expansion", func(f *pflag.FlagSet) {
		f.DurationVar(&r.ResizeTimeout, "resize-timeout", 0, "for ControllerExpandVolume; --timeout wins if it is given; 0 for that")
		f.DurationVar(&r.ModifyTimeout, "modify-timeout", 0, "for ControllerModifyVolume; this version does not modify volumes")
		f.BoolVar(&r.WatchPods, "handle-volume-inuse-error", true, "watch pods, and let an expansion that the driver refuses while a volume is in use wait for them to end")
		f.BoolVar(&r.ExtraMetadata, "extra-modify-metadata", false, "tell the driver the names of claim and volume when it modifies one; this version does not modify volumes")
		f.DurationVar(&r.resync, "resync-period", 10*time.Minute, "has no effect: every change is seen as it comes")
	})
	r.addFlags(f)
}

// Validate implements role.
func (r *Resizer) Validate() error {
	return errors.Join(r.validateAll(),
		need(r.ResizeTimeout >= 0, "--resize-timeout=%s: must not be negative", r.ResizeTimeout))
}

// callTimeout is RZ-F1 and RZ-F2.
func (r *Resizer) callTimeout() time.Duration {
	if r.given != nil && r.given("timeout") {
		return r.Timeout
	}
	return cmp.Or(r.ResizeTimeout, r.Timeout)
}

var errCannotExpand = errors.New("the csi driver has EXPAND_VOLUME neither in its controller nor on its nodes, so this program has nothing to do; take it out of the pod")

// add registers the controller (RZ-S2).
func (r *Resizer) add(ctx context.Context, run *sidecarRun) error {
	controller := run.driver.Controller[csi.ControllerServiceCapability_RPC_EXPAND_VOLUME]
	if !controller {
		onNode, err := run.conn.NodeExpands(ctx)
		if err != nil {
			return err
		}
		if !onNode {
			return errCannotExpand
		}
	}
	if run.driver.Controller[csi.ControllerServiceCapability_RPC_MODIFY_VOLUME] {
		logr.FromContextOrDiscard(ctx).Info("the csi driver can modify volumes, and this version of purser csi-resizer does not: changes of a claim's VolumeAttributesClass wait")
	}
	return resize.New(resize.Config{
		Settings: run.settings, Cached: run.mgr.GetClient(), Live: run.mgr.GetAPIReader(), Writer: run.mgr.GetClient(),
		CSI: run.conn.Controller(), Calls: run.calls, Driver: resizing.Driver{Name: run.driver.Name, Controller: controller},
		MultiWriters: run.driver.Controller[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER],
		Timeout:      r.callTimeout(), AnnotateFS: r.gates.Enabled(gateAnnotateFsResize), WatchPods: r.WatchPods, InFlight: run.inFlight,
	}).AddTo(ctx, run.mgr)
}

// trimForResizer keeps claims and volumes whole but for their managed fields: patches are made from them. Of pods it keeps what
// kube.TrimPod does.
func trimForResizer(in any) (any, error) {
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
