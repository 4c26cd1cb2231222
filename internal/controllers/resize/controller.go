package resize

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/controllers/volumelock"
	"github.com/purser-csi/purser/internal/core/protection"
	"github.com/purser-csi/purser/internal/core/resizing"
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

	CSI          csi.ControllerClient
	Calls        *volumelock.Locks // shared by all controllers of the driver in this process
	Driver       resizing.Driver
	MultiWriters bool          // SINGLE_NODE_MULTI_WRITER
	Timeout      time.Duration // of one call to the driver
	AnnotateFS   bool          // gate AnnotateFsResize
	// WatchPods has an expansion that the driver refuses while the volume is in use wait for the
	// pods to end (RZ-F6).
	WatchPods bool
	InFlight  *prometheus.GaugeVec
}

// Name of the controller and of its work queue.
const Name = "resize"

// IndexUsers finds the pods of a claim.
const IndexUsers = "resizedClaim"

// apiBound is the part of the time of one run that is for the API server.
const apiBound = 30 * time.Second

// Controller is the task that the reconcile loop runs.
type Controller struct {
	Config
	caller  *csirpc.Caller
	retries *reconcile.Retries[resizing.Key]
	claims  *kube.OwnWrites[*corev1.PersistentVolumeClaim]
	volumes *kube.OwnWrites[*corev1.PersistentVolume]

	mu      sync.Mutex
	offline map[types.UID]bool // claims whose expansion the driver refused with FAILED_PRECONDITION
}

// New returns the controller without starting anything.
func New(cfg Config) *Controller {
	c := &Controller{
		Config: cfg, retries: reconcile.NewRetries[resizing.Key](), offline: map[types.UID]bool{},
		claims: kube.NewOwnWrites[*corev1.PersistentVolumeClaim](), volumes: kube.NewOwnWrites[*corev1.PersistentVolume](),
	}
	c.caller = csirpc.NewCaller(
		csirpc.CallerConfig{Locks: cfg.Calls, InFlight: cfg.InFlight, ReadSecret: kube.ReadSecret(cfg.Live)},
	)
	return c
}

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[resizing.Key, resizing.Snapshot, resizing.Action] {
	return reconcile.New(reconcile.Config[resizing.Key, resizing.Snapshot, resizing.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: c.retries, Bound: c.Timeout + apiBound,
	})
}

// AddTo registers the controller, its index and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	ctrl, err := controller.NewTyped(Name, mgr, controller.TypedOptions[resizing.Key]{
		Reconciler: c.Loop(), MaxConcurrentReconciles: c.Workers, NewQueue: reconcile.NewQueue[resizing.Key],
	})
	if err != nil {
		return fmt.Errorf("controller %s: %w", Name, err)
	}
	sources := []source.TypedSource[resizing.Key]{
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, c.claimEvents()),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, c.volumeEvents()),
	}
	if c.WatchPods {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, IndexUsers, claimsOf); err != nil {
			return fmt.Errorf("index pods by claim: %w", err)
		}
		sources = append(sources, source.TypedKind(mgr.GetCache(), &corev1.Pod{}, c.podEvents()))
	}
	for _, s := range sources {
		if err := ctrl.Watch(s); err != nil {
			return fmt.Errorf("controller %s: %w", Name, err)
		}
	}
	return nil
}

func claimsOf(o client.Object) []string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	return protection.ClaimNames(pod)
}

type queue = workqueue.TypedRateLimitingInterface[resizing.Key]

func keyOf(claim *corev1.PersistentVolumeClaim) resizing.Key {
	return resizing.Key{NamespacedName: client.ObjectKeyFromObject(claim), UID: claim.UID}
}

// concerns reports whether a claim can have anything to do: it asks for more than it has, or an
// expansion is not over.
func concerns(claim *corev1.PersistentVolumeClaim) bool {
	wants, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	return claim.Spec.VolumeName != "" && (wants.Cmp(has) > 0 || len(claim.Status.AllocatedResourceStatuses) > 0)
}

func (c *Controller) claimEvents() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, resizing.Key] {
	return handler.TypedFuncs[*corev1.PersistentVolumeClaim, resizing.Key]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.PersistentVolumeClaim], q queue) {
			c.claims.Saw(e.Object)
			if concerns(e.Object) {
				q.Add(keyOf(e.Object))
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolumeClaim], q queue) {
			c.claims.Saw(e.ObjectNew)
			if e.ObjectOld.UID != e.ObjectNew.UID {
				q.Add(keyOf(e.ObjectOld))
			}
			// A claim that was concerned is looked at once more: the node has finished, and an
			// annotation may be left (RZ-D1).
			if concerns(e.ObjectNew) || concerns(e.ObjectOld) {
				q.Add(keyOf(e.ObjectNew))
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolumeClaim], q queue) {
			c.claims.Gone(e.Object)
			q.Add(keyOf(e.Object))
		},
	}
}

// volumeEvents enqueues the claim of a volume that comes after it, or that was changed.
func (c *Controller) volumeEvents() handler.TypedEventHandler[*corev1.PersistentVolume, resizing.Key] {
	enqueue := func(pv *corev1.PersistentVolume, q queue) {
		c.volumes.Saw(pv)
		ref := pv.Spec.ClaimRef
		if ref == nil || ref.UID == "" || pv.Spec.CSI != nil && pv.Spec.CSI.Driver != c.Driver.Name {
			return
		}
		key := resizing.Key{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, UID: ref.UID}
		claim, err := kube.Get(context.Background(), c.Cached, key.NamespacedName, &corev1.PersistentVolumeClaim{})
		if err == nil && claim != nil && concerns(claim) {
			q.Add(key)
		}
	}
	return handler.TypedFuncs[*corev1.PersistentVolume, resizing.Key]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.PersistentVolume], q queue) {
			enqueue(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolume], q queue) {
			enqueue(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolume], _ queue) {
			c.volumes.Gone(e.Object)
		},
	}
}

// podEvents enqueues the claims of a pod that has ended, if their expansion waits for that.
func (c *Controller) podEvents() handler.TypedEventHandler[*corev1.Pod, resizing.Key] {
	ended := func(ctx context.Context, pod *corev1.Pod, q queue) {
		for _, name := range protection.ClaimNames(pod) {
			claim, err := kube.Get(
				ctx,
				c.Cached,
				types.NamespacedName{Namespace: pod.Namespace, Name: name},
				&corev1.PersistentVolumeClaim{},
			)
			if err == nil && claim != nil && c.isOffline(claim.UID) {
				q.Add(keyOf(claim))
			}
		}
	}
	return handler.TypedFuncs[*corev1.Pod, resizing.Key]{
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Pod], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID || e.ObjectOld.Status.Phase != e.ObjectNew.Status.Phase ||
				protection.ShutDown(e.ObjectNew) {
				ended(ctx, e.ObjectOld, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Pod], q queue) { ended(ctx, e.Object, q) },
	}
}

func (c *Controller) isOffline(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offline[uid]
}

func (c *Controller) setOffline(uid types.UID, offline bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if offline {
		c.offline[uid] = true
	} else {
		delete(c.offline, uid)
	}
}
