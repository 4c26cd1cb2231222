package expand

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/core/expansion"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// Config has the dependencies of the controller.
type Config struct {
	reconcile.Settings
	Cached client.Reader // the informer cache
	Writer client.Client
}

// Name of the controller and of its work queue, as upstream's metrics have it.
const Name = "volume_expand"

type queue = workqueue.TypedRateLimitingInterface[expansion.Key]

// Controller is the task that package reconcile runs.
type Controller struct{ Config }

// New returns the controller without starting anything.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[expansion.Key, expansion.Snapshot, expansion.Action] {
	return reconcile.New(reconcile.Config[expansion.Key, expansion.Snapshot, expansion.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: reconcile.NewRetries[expansion.Key](),
		Bound: reconcile.APITimeout,
	})
}

// AddTo registers the controller and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.Prewarm(ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	return reconcile.Register(mgr, reconcile.Registration[expansion.Key]{
		Name: Name, Workers: c.Workers, Reconciler: c.Loop(),
		Sources: []source.TypedSource[expansion.Key]{
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, claimChanges()),
		},
	})
}

// claimChanges enqueues claims that request more than their capacity. It enqueues them once more
// when they have the size, request another one or are deleted, so that their state in memory is
// dropped.
func claimChanges() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, expansion.Key] {
	return reconcile.OnChange(func(_ context.Context, c reconcile.Change[*corev1.PersistentVolumeClaim], q queue) {
		isUpdate := !c.IsCreated() && !c.IsDeleted()
		if isUpdate && expansion.Grows(c.Old) && expansion.Grows(c.New) && keyOf(c.Old) == keyOf(c.New) {
			return
		}
		if !c.IsCreated() {
			enqueue(c.Old, q)
		}
		if !c.IsDeleted() {
			enqueue(c.New, q)
		}
	})
}

func enqueue(claim *corev1.PersistentVolumeClaim, q queue) {
	if expansion.Grows(claim) {
		q.Add(keyOf(claim))
	}
}

func keyOf(claim *corev1.PersistentVolumeClaim) expansion.Key {
	return expansion.Key{NamespacedName: client.ObjectKeyFromObject(claim), UID: claim.UID, Size: expansion.Wish(claim)}
}
