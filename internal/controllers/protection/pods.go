package protection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/purser-csi/purser/internal/core/protection"
	"github.com/purser-csi/purser/internal/kube"
)

// podEnds wakes up the claims that a pod may have been the last to hold: when it goes, also where an update hides that, and when the
// kubelet is done with it. That a pod came, or runs, never lets a claim go.
func (c *Claims) podEnds() handler.TypedEventHandler[*corev1.Pod, Key] {
	return handler.TypedFuncs[*corev1.Pod, Key]{
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Pod], q queue) {
			if replaced := e.ObjectOld.UID != e.ObjectNew.UID; replaced || protection.ShutDown(e.ObjectNew) && !protection.ShutDown(e.ObjectOld) {
				c.wakeClaims(ctx, e.ObjectOld, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Pod], q queue) {
			c.wakeClaims(ctx, e.Object, q)
		},
	}
}

// wakeClaims wakes up the claims of the pod that are being deleted. For one whose deletion is not in memory yet, that comes later
// than the pod's end and wakes it up itself.
func (c *Claims) wakeClaims(ctx context.Context, pod *corev1.Pod, q queue) {
	if pod.Spec.NodeName == "" {
		return
	}
	for _, name := range protection.ClaimNames(pod) {
		claim, err := kube.Get(ctx, c.cfg.Cached, types.NamespacedName{Namespace: pod.Namespace, Name: name}, &corev1.PersistentVolumeClaim{})
		if err == nil && claim != nil && claim.DeletionTimestamp != nil {
			enqueue(claim, moves, q)
		}
	}
}
