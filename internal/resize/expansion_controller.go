package resize

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
)

// ExpansionConfig has the dependencies of the controller.
type ExpansionConfig struct {
	reconcile.Settings
	Cached *kube.Overlay
	Writer client.Client // recorded by Cached
}

// ExpansionName of the controller and of its work queue, as upstream's metrics have it.
const ExpansionName = "volume_expand"

type queue = workqueue.TypedRateLimitingInterface[resizing.Key]

// ExpansionController is the task that package reconcile runs.
type ExpansionController struct{ ExpansionConfig }

// NewExpansion returns the controller without starting anything.
func NewExpansion(cfg ExpansionConfig) *ExpansionController { return &ExpansionController{cfg} }

// Loop returns the controller with the loop around it.
func (c *ExpansionController) Loop() *reconcile.Loop[
	resizing.Key, resizing.ExpansionSnapshot, resizing.ExpansionAction,
] {
	return reconcile.New(reconcile.Config[resizing.Key, resizing.ExpansionSnapshot, resizing.ExpansionAction]{
		Settings: c.Settings, Name: ExpansionName, Task: c, Retries: reconcile.NewRetries[resizing.Key](),
		Bound: reconcile.APITimeout,
	})
}

// AddTo registers the controller and its event handlers with a manager.
func (c *ExpansionController) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := c.Cached.Watch(ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	return reconcile.Register(mgr, reconcile.Registration[resizing.Key]{
		Name: ExpansionName, Workers: c.Workers, Reconciler: c.Loop(),
		Sources: []source.TypedSource[resizing.Key]{
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, claimChanges()),
		},
	})
}

// claimChanges enqueues claims that request more than their capacity. It enqueues them once more
// when they have the size, request another one or are deleted, so that their state in memory is
// dropped.
func claimChanges() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, resizing.Key] {
	return reconcile.OnChange(func(_ context.Context, c reconcile.Change[*corev1.PersistentVolumeClaim], q queue) {
		isUpdate := !c.IsCreated() && !c.IsDeleted()
		if isUpdate && resizing.Grows(c.Old) && resizing.Grows(c.New) && keyOf(c.Old) == keyOf(c.New) {
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
	if resizing.Grows(claim) {
		q.Add(keyOf(claim))
	}
}

func keyOf(claim *corev1.PersistentVolumeClaim) resizing.Key {
	return resizing.Key{NamespacedName: client.ObjectKeyFromObject(claim), UID: claim.UID, Size: resizing.Wish(claim)}
}
