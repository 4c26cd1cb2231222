package reclaim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/purser-csi/purser/internal/kube"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

type queue = workqueue.TypedRateLimitingInterface[string]

// deleted enqueues upon deletions. A creation or an update never lets a volume be deleted.
func deleted[T client.Object](names func(context.Context, T) []string) handler.TypedEventHandler[T, string] {
	return handler.TypedFuncs[T, string]{
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], q queue) {
			for _, name := range names(ctx, e.Object) {
				q.Add(name)
			}
		},
	}
}

// changes enqueues upon every change of a volume. A release is stored before a key is enqueued, so
// that the run needs no live read.
func (c *Controller) changes() handler.TypedEventHandler[*corev1.PersistentVolume, string] {
	enqueue := func(ctx context.Context, pv *corev1.PersistentVolume, q queue) {
		for _, name := range c.fromVolume(ctx, pv) {
			q.Add(name)
		}
	}
	look := func(ctx context.Context, was, pv *corev1.PersistentVolume, q queue) {
		c.memory.sees(was, pv)
		if enqueue(ctx, pv, q); c.isLost(pv) {
			q.Add(pv.Name)
		}
	}
	return handler.TypedFuncs[*corev1.PersistentVolume, string]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.PersistentVolume], q queue) {
			look(ctx, nil, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolume], q queue) {
			was := e.ObjectOld
			if reclaim.Owner(e.ObjectNew) != c.Driver.Name {
				was = nil
			}
			look(ctx, was, e.ObjectNew, q)
			enqueue(ctx, e.ObjectOld, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolume], q queue) {
			c.memory.forget(e.Object.UID)
			enqueue(ctx, e.Object, q)
		},
	}
}

// isLost reports whether a volume of ours is terminating without this process having reclaimed it
// (D-33).
func (c *Controller) isLost(pv *corev1.PersistentVolume) bool {
	return reclaim.Owner(pv) == c.Driver.Name && reclaim.IsAbandoned(pv) && !c.memory.knows(pv).Reclaimed
}

// fromVolume enqueues the volumes of our driver that may need an action; nearly all do not.
func (c *Controller) fromVolume(_ context.Context, pv *corev1.PersistentVolume) []string {
	if reclaim.Owner(pv) != c.Driver.Name || reclaim.HasNothingToDo(pv) {
		return nil
	}
	return []string{pv.Name}
}

// fromSameHandle enqueues the volumes that were not deleted because of the changed one: it is
// deleted or detached (D-37).
func (c *Controller) fromSameHandle(ctx context.Context, pv *corev1.PersistentVolume) []string {
	all, err := c.reader().cachedWithHandle(ctx, reclaim.Handle(pv, c.Driver.Name))
	if err != nil {
		return nil // the backoff requeues each volume
	}
	var names []string
	for _, other := range all {
		if other.Name != pv.Name {
			names = append(names, c.fromVolume(ctx, other)...)
		}
	}
	return names
}

// fromAttachment enqueues the volume of a deleted VolumeAttachment and those with the same handle.
// The index does not have the attachment any more then, so after the last one the volume is deleted
// at once (U-40).
func (c *Controller) fromAttachment(ctx context.Context, attachment *storagev1.VolumeAttachment) []string {
	names := kube.AttachedVolume(attachment)
	for _, name := range names {
		pv, err := kube.Get(ctx, c.Cached, client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
		if err == nil && pv != nil {
			names = append(names, c.fromSameHandle(ctx, pv)...)
		}
	}
	return names
}

// releasing enqueues when a claim is deleted or is bound to another volume than its reserved one.
func releasing(
	names func(context.Context, *corev1.PersistentVolumeClaim) []string,
) handler.TypedEventHandler[*corev1.PersistentVolumeClaim, string] {
	enqueue := func(ctx context.Context, claim *corev1.PersistentVolumeClaim, q queue) {
		for _, name := range names(ctx, claim) {
			q.Add(name)
		}
	}
	return handler.TypedFuncs[*corev1.PersistentVolumeClaim, string]{
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolumeClaim], q queue) {
			enqueue(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolumeClaim], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID || e.ObjectOld.Spec.VolumeName != e.ObjectNew.Spec.VolumeName {
				enqueue(ctx, e.ObjectNew, q)
			}
		},
	}
}

// fromClaim enqueues volumes in phases that the PV controller does not change when the claim is
// deleted. The others get an event of the volume.
func (c *Controller) fromClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) []string {
	var waiting corev1.PersistentVolumeList
	key := claim.Namespace + "/" + claim.Name
	if err := c.Cached.List(ctx, &waiting, client.MatchingFields{IndexAwaitedClaim: key},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil // the index does not exist before the initial list, which enqueues each volume
	}
	var names []string
	for i := range waiting.Items {
		names = append(names, c.fromVolume(ctx, &waiting.Items[i])...)
	}
	return names
}
