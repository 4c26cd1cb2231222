package modify

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/controllers/volumelock"
	"github.com/purser-csi/purser/internal/core/attributes"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// Config is what the controller needs.
type Config struct {
	reconcile.Settings
	Cached client.Reader // the informer cache; claims and volumes must be whole but for their managed fields
	Live   client.Reader // the API server, for secrets
	Writer client.Client // patches of claims' status and of volumes

	CSI      csi.ControllerClient
	Calls    *volumelock.Locks // shared by all controllers of the driver in this process (RZ-H17)
	Driver   attributes.Driver
	Timeout  time.Duration // of one call to the driver
	Metadata Metadata
	InFlight *prometheus.GaugeVec
}

// Metadata selects what the driver is told beside the parameters of the class.
type Metadata int

const (
	// ParametersOnly sends the parameters of the class as they are.
	ParametersOnly Metadata = iota
	// WithNames adds the names of claim and volume (RZ-F7).
	WithNames
)

// Name of the controller and of its work queue.
const Name = "modify"

// IndexTarget finds the claims whose volume is to get a class.
const IndexTarget = "targetVolumeAttributesClass"

// apiBound is the part of the time of one run that is for the API server.
const apiBound = 30 * time.Second

// Controller is the task that the reconcile loop runs.
type Controller struct {
	Config
	caller  *csirpc.Caller
	retries *reconcile.Retries[attributes.Key]
	claims  *kube.OwnWrites[*corev1.PersistentVolumeClaim]
	volumes *kube.OwnWrites[*corev1.PersistentVolume]
}

// New returns the controller without starting anything.
func New(cfg Config) *Controller {
	c := &Controller{
		Config: cfg, retries: reconcile.NewRetries[attributes.Key](),
		claims: kube.NewOwnWrites[*corev1.PersistentVolumeClaim](), volumes: kube.NewOwnWrites[*corev1.PersistentVolume](),
	}
	c.caller = csirpc.NewCaller(
		csirpc.CallerConfig{Locks: cfg.Calls, InFlight: cfg.InFlight, ReadSecret: kube.ReadSecret(cfg.Live)},
	)
	return c
}

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[attributes.Key, attributes.Snapshot, attributes.Action] {
	return reconcile.New(reconcile.Config[attributes.Key, attributes.Snapshot, attributes.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: c.retries, Bound: c.Timeout + apiBound,
	})
}

// AddTo registers the controller, its index and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	ctrl, err := controller.NewTyped(Name, mgr, controller.TypedOptions[attributes.Key]{
		Reconciler: c.Loop(), MaxConcurrentReconciles: c.Workers, NewQueue: reconcile.NewQueue[attributes.Key],
	})
	if err != nil {
		return fmt.Errorf("controller %s: %w", Name, err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.PersistentVolumeClaim{}, IndexTarget, targetOf); err != nil {
		return fmt.Errorf("index claims by class: %w", err)
	}
	for _, s := range []source.TypedSource[attributes.Key]{
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, c.claimEvents()),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, c.volumeEvents()),
		source.TypedKind(mgr.GetCache(), &storagev1.VolumeAttributesClass{}, c.classEvents()),
	} {
		if err := ctrl.Watch(s); err != nil {
			return fmt.Errorf("controller %s: %w", Name, err)
		}
	}
	return nil
}

func targetOf(o client.Object) []string {
	if claim, ok := o.(*corev1.PersistentVolumeClaim); ok && attributes.Concerns(claim) {
		if target := attributes.Target(claim); target != "" {
			return []string{target}
		}
	}
	return nil
}

type queue = workqueue.TypedRateLimitingInterface[attributes.Key]

func keyOf(claim *corev1.PersistentVolumeClaim) attributes.Key {
	return attributes.Key{NamespacedName: client.ObjectKeyFromObject(claim), UID: claim.UID}
}

// claimEvents enqueues a claim when an input of its decision changes. The writes of an attempt are
// none, but its end is.
func (c *Controller) claimEvents() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, attributes.Key] {
	return handler.TypedFuncs[*corev1.PersistentVolumeClaim, attributes.Key]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.PersistentVolumeClaim], q queue) {
			c.claims.Saw(e.Object)
			if attributes.Concerns(e.Object) {
				q.Add(keyOf(e.Object))
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolumeClaim], q queue) {
			c.claims.Saw(e.ObjectNew)
			if e.ObjectOld.UID != e.ObjectNew.UID {
				q.Add(keyOf(e.ObjectOld))
			}
			if attributes.Concerns(e.ObjectNew) && attributes.Changed(e.ObjectOld, e.ObjectNew) {
				q.Add(keyOf(e.ObjectNew))
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolumeClaim], q queue) {
			c.claims.Gone(e.Object)
			if c.retries.Has(keyOf(e.Object)) {
				q.Add(keyOf(e.Object))
			}
		},
	}
}

// volumeEvents enqueues the claim of a volume that the cache shows after the claim.
func (c *Controller) volumeEvents() handler.TypedEventHandler[*corev1.PersistentVolume, attributes.Key] {
	return handler.TypedFuncs[*corev1.PersistentVolume, attributes.Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.PersistentVolume], q queue) {
			c.volumes.Saw(e.Object)
			ref := e.Object.Spec.ClaimRef
			if ref == nil || ref.UID == "" || e.Object.Spec.CSI == nil || e.Object.Spec.CSI.Driver != c.Driver.Name {
				return
			}
			key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
			claim, err := kube.Get(ctx, c.Cached, key, &corev1.PersistentVolumeClaim{})
			if err == nil && claim != nil && claim.UID == ref.UID && attributes.Concerns(claim) {
				q.Add(keyOf(claim))
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolume], _ queue) {
			c.volumes.Saw(e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolume], _ queue) {
			c.volumes.Gone(e.Object)
		},
	}
}

// classEvents enqueues the claims that wait for a class that appears (RZ-H1). Its parameters cannot
// change.
func (c *Controller) classEvents() handler.TypedEventHandler[*storagev1.VolumeAttributesClass, attributes.Key] {
	return handler.TypedFuncs[*storagev1.VolumeAttributesClass, attributes.Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*storagev1.VolumeAttributesClass], q queue) {
			c.enqueueClaimsOf(ctx, e.Object.Name, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*storagev1.VolumeAttributesClass], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID {
				c.enqueueClaimsOf(ctx, e.ObjectNew.Name, q)
			}
		},
	}
}

func (c *Controller) enqueueClaimsOf(ctx context.Context, class string, q queue) {
	var claims corev1.PersistentVolumeClaimList
	if err := c.Cached.List(ctx, &claims, client.MatchingFields{IndexTarget: class}); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "cannot list the claims of a VolumeAttributesClass", "class", class)
		return
	}
	for i := range claims.Items {
		q.Add(keyOf(&claims.Items[i]))
	}
}
