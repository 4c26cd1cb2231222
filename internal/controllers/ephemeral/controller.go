package ephemeral

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/core/ephemeral"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Config is what the controller needs.
type Config struct {
	reconcile.Settings
	Cached client.Reader // answers from memory; pods may be trimmed (kube.TrimPod)
	Live   client.Reader // answers from the API server
	Writer client.Writer

	Created *telemetry.Ephemeral // nil for none
}

// Name of the controller and of its work queue, as upstream's metrics have it.
const Name = "ephemeral_volume"

// IndexClaim finds the pods by the claims of their ephemeral volumes.
const IndexClaim = "ephemeralClaim"

// apiBound is the time of one run, for the API server to answer.
const apiBound = 30 * time.Second

type queue = workqueue.TypedRateLimitingInterface[ephemeral.Key]

// Controller is the task that controllers/loop runs.
type Controller struct{ Config }

// New returns the controller without starting anything.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Loop is the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[ephemeral.Key, ephemeral.Snapshot, ephemeral.Action] {
	return reconcile.New(reconcile.Config[ephemeral.Key, ephemeral.Snapshot, ephemeral.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: reconcile.NewRetries[ephemeral.Key](), Bound: apiBound,
	})
}

// AddTo registers the controller, its index and its wake-ups with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, IndexClaim, claimsOf); err != nil {
		return fmt.Errorf("index pods by claim: %w", err)
	}
	if err := kube.Prewarm(ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	ctrl, err := controller.NewTyped(Name, mgr, controller.TypedOptions[ephemeral.Key]{
		Reconciler: c.Loop(), MaxConcurrentReconciles: c.Workers, NewQueue: reconcile.NewQueue[ephemeral.Key],
	})
	if err != nil {
		return fmt.Errorf("controller %s: %w", Name, err)
	}
	for _, wakeUp := range []source.TypedSource[ephemeral.Key]{
		source.TypedKind(mgr.GetCache(), &corev1.Pod{}, podComes()),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, c.claimGoes()),
	} {
		if err := ctrl.Watch(wakeUp); err != nil {
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
	var names []string
	for _, volume := range ephemeral.Volumes(pod) {
		names = append(names, ephemeral.ClaimName(pod, volume))
	}
	return names
}

// podComes wakes up for each ephemeral volume of a pod. What follows from a pod never changes, but the end of one pod and the creation
// of another under its name can come as one update.
func podComes() handler.TypedEventHandler[*corev1.Pod, ephemeral.Key] {
	return handler.TypedFuncs[*corev1.Pod, ephemeral.Key]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Pod], q queue) { wake(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Pod], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID {
				wake(e.ObjectNew, q)
			}
		},
	}
}

func wake(pod *corev1.Pod, q queue) {
	if !ephemeral.Wants(pod) {
		return
	}
	for _, volume := range ephemeral.Volumes(pod) {
		q.Add(ephemeral.Key{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Volume: volume})
	}
}

// claimGoes wakes up the pods that a claim belonged to, or stood in the way of.
func (c *Controller) claimGoes() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, ephemeral.Key] {
	gone := func(ctx context.Context, claim *corev1.PersistentVolumeClaim, q queue) {
		var pods corev1.PodList
		if err := c.Cached.List(ctx, &pods, client.InNamespace(claim.Namespace), client.MatchingFields{IndexClaim: claim.Name}); err != nil {
			return // only if there is no such index
		}
		for i := range pods.Items {
			wake(&pods.Items[i], q)
		}
	}
	return handler.TypedFuncs[*corev1.PersistentVolumeClaim, ephemeral.Key]{
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolumeClaim], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID {
				gone(ctx, e.ObjectOld, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolumeClaim], q queue) {
			gone(ctx, e.Object, q)
		},
	}
}

func podKey(key ephemeral.Key) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: key.Pod}
}
