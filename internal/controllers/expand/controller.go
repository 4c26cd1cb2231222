package expand

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/core/expansion"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// Config is what the controller needs.
type Config struct {
	reconcile.Settings
	Cached client.Reader // answers from memory
	Writer client.Client
}

// Name of the controller and of its work queue, as upstream's metrics have it.
const Name = "volume_expand"

// apiBound is the time of one run, for the API server to answer.
const apiBound = 30 * time.Second

type queue = workqueue.TypedRateLimitingInterface[expansion.Key]

// Controller is the task that controllers/loop runs.
type Controller struct{ Config }

// New returns the controller without starting anything.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Loop is the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[expansion.Key, expansion.Snapshot, expansion.Action] {
	return reconcile.New(reconcile.Config[expansion.Key, expansion.Snapshot, expansion.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: reconcile.NewRetries[expansion.Key](), Bound: apiBound,
	})
}

// AddTo registers the controller and its wake-ups with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.Prewarm(ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	ctrl, err := controller.NewTyped(Name, mgr, controller.TypedOptions[expansion.Key]{
		Reconciler: c.Loop(), MaxConcurrentReconciles: c.Workers, NewQueue: reconcile.NewQueue[expansion.Key],
	})
	if err != nil {
		return fmt.Errorf("controller %s: %w", Name, err)
	}
	if err := ctrl.Watch(source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, claimChanges())); err != nil {
		return fmt.Errorf("controller %s: %w", Name, err)
	}
	return nil
}

// claimChanges wakes up for claims that ask for more than they have, and once more when they have it, or ask for something else, or
// are gone, so that nothing is remembered of them.
func claimChanges() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, expansion.Key] {
	return handler.TypedFuncs[*corev1.PersistentVolumeClaim, expansion.Key]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.PersistentVolumeClaim], q queue) {
			enqueue(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolumeClaim], q queue) {
			if expansion.Grows(e.ObjectOld) && expansion.Grows(e.ObjectNew) && keyOf(e.ObjectOld) == keyOf(e.ObjectNew) {
				return
			}
			enqueue(e.ObjectOld, q)
			enqueue(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolumeClaim], q queue) {
			enqueue(e.Object, q)
		},
	}
}

func enqueue(claim *corev1.PersistentVolumeClaim, q queue) {
	if expansion.Grows(claim) {
		q.Add(keyOf(claim))
	}
}

func keyOf(claim *corev1.PersistentVolumeClaim) expansion.Key {
	return expansion.Key{NamespacedName: client.ObjectKeyFromObject(claim), UID: claim.UID, Size: expansion.Wish(claim)}
}
