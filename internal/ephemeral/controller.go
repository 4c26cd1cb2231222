package ephemeral

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	ephemeral "github.com/purser-csi/purser/internal/ephemeral/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Config has the dependencies of the controller.
type Config struct {
	reconcile.Settings
	Cached *kube.Overlay // with this process's own writes; pods may be trimmed (kube.TrimPod)
	Live   client.Reader // reads from the API server
	Writer client.Writer // records what it writes in Cached

	Created *telemetry.Ephemeral // nil for none
}

// Name of the controller and of its work queue, as upstream's metrics have it.
const Name = "ephemeral_volume"

type queue = workqueue.TypedRateLimitingInterface[ephemeral.Key]

// Controller is the task that package reconcile runs.
type Controller struct{ Config }

// New returns the controller without starting anything.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[ephemeral.Key, ephemeral.Snapshot, ephemeral.Action] {
	return reconcile.New(reconcile.Config[ephemeral.Key, ephemeral.Snapshot, ephemeral.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: reconcile.NewRetries[ephemeral.Key](),
		Bound: reconcile.APITimeout,
	})
}

// AddTo registers the controller, its index and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), Indexes()...); err != nil {
		return err
	}
	if err := c.Cached.Watch(ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	return reconcile.Register(mgr, reconcile.Registration[ephemeral.Key]{
		Name: Name, Workers: c.Workers, Reconciler: c.Loop(),
		Sources: []source.TypedSource[ephemeral.Key]{
			source.TypedKind(mgr.GetCache(), &corev1.Pod{}, podAdded()),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, c.claimDeleted()),
		},
	})
}

// podAdded enqueues each ephemeral volume of a new pod. A pod's volumes are immutable.
func podAdded() handler.TypedEventHandler[*corev1.Pod, ephemeral.Key] {
	return reconcile.OnChange(func(_ context.Context, c reconcile.Change[*corev1.Pod], q queue) {
		if c.IsCreated() {
			enqueue(c.New, q)
		}
	})
}

func enqueue(pod *corev1.Pod, q queue) {
	if !ephemeral.Wants(pod) {
		return
	}
	for _, volume := range ephemeral.Volumes(pod) {
		q.Add(ephemeral.Key{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Volume: volume})
	}
}

// claimDeleted enqueues the pods whose ephemeral volumes need a claim with the name of the deleted
// one.
func (c *Controller) claimDeleted() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, ephemeral.Key] {
	return reconcile.OnChange(func(
		ctx context.Context, change reconcile.Change[*corev1.PersistentVolumeClaim], q queue,
	) {
		if !change.IsDeleted() {
			return
		}
		claim := change.Old
		var pods corev1.PodList
		if err := c.Cached.List(ctx, &pods, client.InNamespace(claim.Namespace),
			client.MatchingFields{IndexEphemeralClaim: claim.Name}); err != nil {
			return // only if there is no such index
		}
		for i := range pods.Items {
			enqueue(&pods.Items[i], q)
		}
	})
}

func podKey(key ephemeral.Key) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: key.Pod}
}
