package attacher

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// Config is what the controllers need.
type Config struct {
	reconcile.Settings
	// Cached is the informer cache with own writes; attachments must be whole but for their managed fields.
	Cached *kube.Overlay
	Live   client.Reader // the API server, for secrets and after failures
	Writer client.Client // whose writes Cached has

	CSI      csi.ControllerClient
	Calls    *csirpc.VolumeLocks // shared by all controllers of the driver in this process
	Driver   publishing.Driver
	Timeout  time.Duration // of one call to the driver
	InFlight *prometheus.GaugeVec
	Compare  Comparison // with what the driver lists
	// InProcess connects it with the attach-detach controller in this process; nil for none.
	InProcess *handoff.Attachments
}

// Names of the controllers and their work queues, as upstream's metrics have them (AT-Q1).
const (
	Name        = "csi-attacher-va"
	NameVolumes = "csi-attacher-pv"
)

// Controller is the task that the reconcile loop runs for VolumeAttachments.
type Controller struct {
	Config
	caller  *csirpc.Caller
	retries *reconcile.Retries[string]
	memory  Memory
}

// New returns the controller without starting anything.
func New(cfg Config) *Controller {
	return &Controller{
		Config: cfg, retries: reconcile.NewRetries[string](),
		caller: csirpc.NewCaller(
			csirpc.CallerConfig{Locks: cfg.Calls, InFlight: cfg.InFlight, ReadSecret: kube.ReadSecret(cfg.Live)},
		),
	}
}

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[string, publishing.Snapshot, publishing.Action] {
	return reconcile.New(reconcile.Config[string, publishing.Snapshot, publishing.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: c.retries, Bound: c.Timeout + reconcile.APITimeout,
	})
}

// AddTo registers the controllers, their indexes and event handlers with a manager. All caches are
// filled before the first attachment is looked at, the one of CSINodes too (AT-H1).
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), Indexes()...); err != nil {
		return err
	}
	c.Cached.Index(Indexes()...)
	err := c.Cached.Watch(ctx, mgr.GetCache(), &storagev1.VolumeAttachment{}, &corev1.PersistentVolume{})
	if err != nil {
		return err
	}
	if err := kube.Prewarm(ctx, mgr.GetCache(), &corev1.PersistentVolume{}, &storagev1.CSINode{}); err != nil {
		return err
	}
	err = reconcile.Register(mgr, reconcile.Registration[string]{
		Name: Name, Workers: 2 * c.Workers, // each lane has as many as there may be
		Reconciler: reconcile.NewLanes(reconcile.LanesConfig[string, lane]{
			Reconciler: c.inTurn(c.Loop()), Lane: c.laneOf, Most: c.Workers, Enqueue: c.memory.enqueue,
		}),
		Sources: []source.TypedSource[string]{
			source.TypedFunc[string](c.start),
			source.TypedKind(mgr.GetCache(), &storagev1.VolumeAttachment{}, c.attachmentEvents()),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, c.volumeEvents()),
			source.TypedKind(mgr.GetCache(), &storagev1.CSINode{}, c.nodeEvents()),
		},
	})
	if err != nil {
		return err
	}
	if c.Compare.Pause > 0 {
		if err := mgr.Add(comparer{c}); err != nil {
			return err
		}
	}
	return volumeFinalizer{c}.addTo(mgr)
}

// lane is the kind of a run: slow calls of one kind do not take all workers from the other.
type lane int

const (
	attaching lane = iota
	detaching
)

func (c *Controller) laneOf(ctx context.Context, name string) lane {
	va, err := kube.Get(ctx, c.Cached, types.NamespacedName{Name: name}, &storagev1.VolumeAttachment{})
	if err == nil && va != nil && va.DeletionTimestamp != nil {
		return detaching
	}
	return attaching
}

// inTurn attaches an exclusive volume to one node after the other: of two VolumeAttachments, the second
// sees the finalizer of the first and writes none (AT-H11). Otherwise each could wait for the other.
func (c *Controller) inTurn(loop crreconcile.TypedReconciler[string]) crreconcile.TypedReconciler[string] {
	return reconcile.NewLanes(reconcile.LanesConfig[string, string]{
		Reconciler: loop, Lane: c.turnOf, Most: 1, Enqueue: c.memory.enqueue,
	})
}

func (c *Controller) turnOf(ctx context.Context, name string) string {
	va, err := kube.Get(ctx, c.Cached, types.NamespacedName{Name: name}, &storagev1.VolumeAttachment{})
	if err != nil || va == nil {
		return name
	}
	s, err := Gather(ctx, c.Cached, va, c.Driver)
	if err != nil {
		return name
	}
	return publishing.Turn(s)
}

type queue = workqueue.TypedRateLimitingInterface[string]

// attachmentEvents leaves out changes of errors, which are this controller's own writes (AT-Q3).
func (c *Controller) attachmentEvents() handler.TypedEventHandler[*storagev1.VolumeAttachment, string] {
	ours := func(va *storagev1.VolumeAttachment) bool { return va.Spec.Attacher == c.Driver.Name }
	return handler.TypedFuncs[*storagev1.VolumeAttachment, string]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*storagev1.VolumeAttachment], q queue) {
			if ours(e.Object) {
				q.Add(e.Object.Name)
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*storagev1.VolumeAttachment], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID {
				c.memory.setMismatch(e.ObjectOld.UID, false)
			}
			deleted := e.ObjectOld.DeletionTimestamp == nil && e.ObjectNew.DeletionTimestamp != nil
			if ours(e.ObjectNew) &&
				(deleted || e.ObjectOld.Status.Attached != e.ObjectNew.Status.Attached ||
					e.ObjectOld.UID != e.ObjectNew.UID) {
				q.Add(e.ObjectNew.Name)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*storagev1.VolumeAttachment], q queue) {
			c.Cached.Gone(e.Object) // before the key is enqueued, also in an overlay that is fed
			c.memory.setMismatch(e.Object.UID, false)
			if !ours(e.Object) {
				return
			}
			q.Add(e.Object.Name)
			for _, volume := range kube.AttachedVolume(e.Object) { // an exclusive volume may go to another node now
				c.enqueue(ctx, client.MatchingFields{kube.IndexAttachmentVolume: volume}, q)
			}
			for _, handle := range RememberedHandle(e.Object) {
				c.enqueue(ctx, client.MatchingFields{IndexPublishedHandle: handle}, q)
			}
		},
	}
}

// volumeEvents enqueues the attachments of a volume that comes after them.
func (c *Controller) volumeEvents() handler.TypedEventHandler[*corev1.PersistentVolume, string] {
	return handler.TypedFuncs[*corev1.PersistentVolume, string]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.PersistentVolume], q queue) {
			c.enqueue(ctx, client.MatchingFields{kube.IndexAttachmentVolume: e.Object.Name}, q)
		},
	}
}

// nodeEvents enqueues the attachments to a node on which the driver is registered by now.
func (c *Controller) nodeEvents() handler.TypedEventHandler[*storagev1.CSINode, string] {
	changed := func(ctx context.Context, node *storagev1.CSINode, q queue) {
		c.enqueue(ctx, client.MatchingFields{kube.IndexAttachmentNode: node.Name}, q)
	}
	return handler.TypedFuncs[*storagev1.CSINode, string]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*storagev1.CSINode], q queue) {
			changed(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*storagev1.CSINode], q queue) {
			changed(ctx, e.ObjectNew, q)
		},
	}
}

// enqueue adds the attachments that are not attached yet.
func (c *Controller) enqueue(ctx context.Context, which client.ListOption, q queue) {
	var list storagev1.VolumeAttachmentList
	if err := c.Cached.List(ctx, &list, which); err != nil {
		return // the cache does not fail once it is filled
	}
	for i := range list.Items {
		if va := &list.Items[i]; va.Spec.Attacher == c.Driver.Name && !va.Status.Attached {
			q.Add(va.Name)
		}
	}
}
