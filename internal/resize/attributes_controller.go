package resize

import (
	"context"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/csirpc"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/reconcile"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
)

// AttributesConfig has the dependencies of the controller.
type AttributesConfig struct {
	reconcile.Settings
	Store Store

	CSI      csi.ControllerClient
	Calls    *csirpc.VolumeLocks // shared by all controllers of the driver in this process (RZ-H17)
	Driver   resizing.AttributesDriver
	Here     Here
	Timeout  time.Duration // of one call to the driver
	Metadata Metadata
	InFlight *prometheus.GaugeVec
}

// Metadata selects the keys that are sent to the driver in addition to the parameters of the class.
type Metadata int

const (
	// ParametersOnly sends the parameters of the class as they are.
	ParametersOnly Metadata = iota
	// WithNames adds the names of claim and volume (RZ-F7).
	WithNames
)

// IndexTargetClass finds the claims whose volume is to get a VolumeAttributesClass.
const IndexTargetClass = "targetVolumeAttributesClass"

// AttributesIndexes are the indexes of the controller of VolumeAttributesClasses.
func AttributesIndexes() []kube.Index {
	return []kube.Index{
		kube.IndexBy(IndexTargetClass, func(claim *corev1.PersistentVolumeClaim) []string {
			if target := resizing.Target(claim); target != "" && resizing.AttributesConcerns(claim) {
				return []string{target}
			}
			return nil
		}),
	}
}

// AttributesName of the controller and of its work queue.
const AttributesName = "modify"

// AttributesController is the task that the reconcile loop runs.
type AttributesController struct {
	AttributesConfig
	caller  *csirpc.Caller
	retries *reconcile.Retries[objects.ClaimKey]
}

// NewAttributes returns the controller without starting anything.
func NewAttributes(cfg AttributesConfig) *AttributesController {
	return &AttributesController{
		AttributesConfig: cfg, retries: reconcile.NewRetries[objects.ClaimKey](),
		caller: csirpc.NewCaller(csirpc.CallerConfig{
			Locks: cfg.Calls, InFlight: cfg.InFlight, ReadSecret: kube.ReadSecret(cfg.Store.Live),
		}),
	}
}

// Loop returns the controller with the loop around it.
func (c *AttributesController) Loop() *reconcile.Loop[
	objects.ClaimKey, resizing.AttributesSnapshot, resizing.AttributesAction,
] {
	return reconcile.New(reconcile.Config[objects.ClaimKey, resizing.AttributesSnapshot, resizing.AttributesAction]{
		Settings: c.Settings, Name: AttributesName, Task: c, Retries: c.retries,
		Bound: c.Timeout + reconcile.APITimeout,
	})
}

// AddTo registers the controller, its index and its event handlers with a manager.
func (c *AttributesController) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := errors.Join(
		kube.AddIndexes(ctx, mgr.GetFieldIndexer(), AttributesIndexes()...), c.Store.watch(ctx, mgr),
	); err != nil {
		return err
	}
	c.Store.Cached.Index(AttributesIndexes()...)
	interest := c.interest()
	return reconcile.Register(mgr, reconcile.Registration[objects.ClaimKey]{
		Name: AttributesName, Workers: c.Workers, Reconciler: c.Loop(),
		Sources: []source.TypedSource[objects.ClaimKey]{
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, c.Store.ClaimEvents(interest)),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, c.Store.VolumeEvents(interest)),
			source.TypedKind(mgr.GetCache(), &storagev1.VolumeAttributesClass{}, c.classEvents()),
		},
	})
}

// interest enqueues a claim when an input of its decision changes. The status writes of an attempt
// in progress do not enqueue it, but the write at its end does.
func (c *AttributesController) interest() Interest {
	return Interest{
		Concerns: resizing.AttributesConcerns, Remembered: c.retries.Has,
		Changed: func(old, current *corev1.PersistentVolumeClaim) bool {
			return resizing.AttributesConcerns(current) && resizing.Changed(old, current)
		},
		Serves: func(pv *corev1.PersistentVolume) bool {
			return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == c.Driver.Name
		},
	}
}

// classEvents enqueues the claims that wait for a class when it is created (RZ-H1). Its parameters
// are immutable.
func (c *AttributesController) classEvents() handler.TypedEventHandler[
	*storagev1.VolumeAttributesClass, objects.ClaimKey,
] {
	return handler.TypedFuncs[*storagev1.VolumeAttributesClass, objects.ClaimKey]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*storagev1.VolumeAttributesClass],
			q Queue,
		) {
			c.enqueueClaimsOf(ctx, e.Object.Name, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*storagev1.VolumeAttributesClass],
			q Queue,
		) {
			if e.ObjectOld.UID != e.ObjectNew.UID {
				c.enqueueClaimsOf(ctx, e.ObjectNew.Name, q)
			}
		},
	}
}

func (c *AttributesController) enqueueClaimsOf(ctx context.Context, class string, q Queue) {
	var claims corev1.PersistentVolumeClaimList
	if err := c.Store.Cached.List(ctx, &claims, client.MatchingFields{IndexTargetClass: class}); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "cannot list the claims of a VolumeAttributesClass", "class", class)
		return
	}
	for i := range claims.Items {
		q.Add(objects.KeyOfClaim(&claims.Items[i]))
	}
}
