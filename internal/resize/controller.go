package resize

import (
	"context"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/csirpc"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/reconcile"

	resizing "github.com/purser-csi/purser/internal/resize/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// Config has the dependencies of the controller.
type Config struct {
	reconcile.Settings
	Store Store

	CSI          csi.ControllerClient
	Calls        *csirpc.VolumeLocks // shared by all controllers of the driver in this process (RZ-H17)
	Driver       resizing.Driver
	Here         Here
	MultiWriters bool          // SINGLE_NODE_MULTI_WRITER
	Timeout      time.Duration // of one call to the driver
	AnnotateFS   bool          // gate AnnotateFsResize
	// WatchPods makes an expansion that the driver refuses while the volume is in use wait until
	// its pods have ended (RZ-F6).
	WatchPods bool
	InFlight  *prometheus.GaugeVec
}

// Name of the controller and of its work queue.
const Name = "resize"

// Controller is the task that the reconcile loop runs.
type Controller struct {
	Config
	caller  *csirpc.Caller
	retries *reconcile.Retries[objects.ClaimKey]
	offline sync.Map // uids of claims whose expansion the driver refused with FAILED_PRECONDITION
}

// New returns the controller without starting anything.
func New(cfg Config) *Controller {
	return &Controller{
		Config: cfg, retries: reconcile.NewRetries[objects.ClaimKey](),
		caller: csirpc.NewCaller(csirpc.CallerConfig{
			Locks: cfg.Calls, InFlight: cfg.InFlight, ReadSecret: kube.ReadSecret(cfg.Store.Live),
		}),
	}
}

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[objects.ClaimKey, resizing.Snapshot, resizing.Action] {
	return reconcile.New(reconcile.Config[objects.ClaimKey, resizing.Snapshot, resizing.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: c.retries, Bound: c.Timeout + reconcile.APITimeout,
		Observe: c.forget,
	})
}

// AddTo registers the controller, its index and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := c.Store.watch(ctx, mgr); err != nil {
		return err
	}
	interest := c.interest()
	sources := []source.TypedSource[objects.ClaimKey]{
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, c.Store.ClaimEvents(interest)),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, c.Store.VolumeEvents(interest)),
	}
	if c.WatchPods {
		if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), Indexes()...); err != nil {
			return err
		}
		sources = append(sources, source.TypedKind(mgr.GetCache(), &corev1.Pod{}, c.podEvents()))
	}
	return reconcile.Register(mgr, reconcile.Registration[objects.ClaimKey]{
		Name: Name, Workers: c.Workers, Reconciler: c.Loop(), Sources: sources,
	})
}

// interest enqueues a claim once more when its expansion has ended: after the node has finished, an
// annotation may have to be removed (RZ-D1), also one from before the process started.
func (c *Controller) interest() Interest {
	return Interest{
		Concerns: resizing.Concerns, Remembered: c.retries.Has,
		Changed: func(old, current *corev1.PersistentVolumeClaim) bool {
			return resizing.Concerns(current) || resizing.Concerns(old)
		},
		VolumeConcerns: func(pv *corev1.PersistentVolume) bool {
			_, annotated := pv.Annotations[names.AnnPreResizeCapacity]
			return annotated && c.AnnotateFS
		},
		VolumeChanged: func(_, _ *corev1.PersistentVolume) bool { return true },
		Serves: func(pv *corev1.PersistentVolume) bool {
			return pv.Spec.CSI == nil || pv.Spec.CSI.Driver == c.Driver.Name
		},
	}
}

// podEvents enqueues the claims of a pod that has ended, if their expansion waits for that.
func (c *Controller) podEvents() handler.TypedEventHandler[*corev1.Pod, objects.ClaimKey] {
	ended := func(ctx context.Context, pod *corev1.Pod, q Queue) {
		for _, name := range protection.ClaimNames(pod) {
			key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
			claim, err := kube.Get(ctx, c.Store.Cached, key, &corev1.PersistentVolumeClaim{})
			if err == nil && claim != nil && c.isOffline(claim.UID) {
				q.Add(objects.KeyOfClaim(claim))
			}
		}
	}
	return handler.TypedFuncs[*corev1.Pod, objects.ClaimKey]{
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Pod], q Queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID || e.ObjectOld.Status.Phase != e.ObjectNew.Status.Phase ||
				protection.ShutDown(e.ObjectNew) {
				ended(ctx, e.ObjectOld, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Pod], q Queue) {
			ended(ctx, e.Object, q)
		},
	}
}

// forget drops what is remembered of a claim that is gone.
func (c *Controller) forget(key objects.ClaimKey, s resizing.Snapshot, end next, _ time.Duration) {
	if _, failed := end.(verdict.Refuse[resizing.Action]); s.Claim == nil && !failed {
		c.offline.Delete(key.UID)
	}
}

func (c *Controller) isOffline(uid types.UID) bool {
	_, is := c.offline.Load(uid)
	return is
}
