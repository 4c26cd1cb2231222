package protection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/purser-csi/purser/internal/kube"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/reconcile"
)

// podEnds enqueues the claims of a pod that is gone, or whose containers the kubelet has ended: it
// may have been the last one that used them. A pod that comes or runs never releases a claim.
func (c *Claims) podEnds() handler.TypedEventHandler[*corev1.Pod, Key] {
	return reconcile.OnChange(func(ctx context.Context, change reconcile.Change[*corev1.Pod], q queue) {
		switch {
		case change.IsCreated():
		case change.IsDeleted(), protection.ShutDown(change.New) && !protection.ShutDown(change.Old):
			c.enqueueTerminating(ctx, change.Old, q)
		}
	})
}

// enqueueTerminating enqueues the claims of the pod that are being deleted. A claim whose deletion
// the cache does not have yet is enqueued by its own event, which comes later.
func (c *Claims) enqueueTerminating(ctx context.Context, pod *corev1.Pod, q queue) {
	if pod.Spec.NodeName == "" {
		return
	}
	for _, name := range protection.ClaimNames(pod) {
		claim, err := kube.Get(
			ctx,
			c.cfg.Cached,
			types.NamespacedName{Namespace: pod.Namespace, Name: name},
			&corev1.PersistentVolumeClaim{},
		)
		if err == nil && claim != nil && claim.DeletionTimestamp != nil {
			enqueue(claim, moves, q)
		}
	}
}
