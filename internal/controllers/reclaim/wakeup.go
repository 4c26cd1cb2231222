package reclaim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/purser-csi/purser/internal/core/reclaim"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/world"
)

type queue = workqueue.TypedRateLimitingInterface[string]

// deleted wakes up when an object goes. That it came, or changed, never lets a volume be deleted.
func deleted[T client.Object](names func(context.Context, T) []string) handler.TypedEventHandler[T, string] {
	return handler.TypedFuncs[T, string]{
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], q queue) {
			for _, name := range names(ctx, e.Object) {
				q.Add(name)
			}
		},
	}
}

// changes wakes up for whatever becomes of a volume. A release is noted before any key is enqueued
// by it, who would have to ask otherwise.
func (c *Controller) changes() handler.TypedEventHandler[*corev1.PersistentVolume, string] {
	wake := func(ctx context.Context, pv *corev1.PersistentVolume, q queue) {
		for _, name := range c.fromVolume(ctx, pv) {
			q.Add(name)
		}
	}
	look := func(ctx context.Context, pv *corev1.PersistentVolume, q queue) {
		c.releases.see(pv)
		if wake(ctx, pv, q); c.isLost(pv) {
			q.Add(pv.Name)
		}
	}
	return handler.TypedFuncs[*corev1.PersistentVolume, string]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.PersistentVolume], q queue) {
			look(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolume], q queue) {
			if reclaim.Owner(e.ObjectNew) == c.Driver.Name {
				c.releases.note(e.ObjectOld, e.ObjectNew)
			}
			look(ctx, e.ObjectNew, q)
			wake(ctx, e.ObjectOld, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolume], q queue) {
			c.releases.forget(e.Object)
			wake(ctx, e.Object, q)
		},
	}
}

// isLost finds a volume of ours that goes, and that this process has not dealt with (D-33).
func (c *Controller) isLost(pv *corev1.PersistentVolume) bool {
	return reclaim.Owner(pv) == c.Driver.Name && reclaim.IsAbandoned(pv) && !c.released.before(pv.Name).Finishes(pv)
}

// fromVolume wakes up for volumes of ours, unless they rest, as nearly all do.
func (c *Controller) fromVolume(_ context.Context, pv *corev1.PersistentVolume) []string {
	if reclaim.Owner(pv) != c.Driver.Name || reclaim.Rests(pv) {
		return nil
	}
	return []string{pv.Name}
}

// fromTwin wakes up the volumes that were not deleted because of the one that has gone, or is
// detached (D-37).
func (c *Controller) fromTwin(ctx context.Context, pv *corev1.PersistentVolume) []string {
	others, err := world.OthersWithHandle(ctx, c.Cached, pv, c.memory())
	if err != nil {
		return nil // the retry of each comes in any case
	}
	var names []string
	for _, twin := range others {
		names = append(names, c.fromVolume(ctx, twin)...)
	}
	return names
}

// fromAttachment wakes up the volume when an attachment of it is gone, and those with the same
// handle; by then the index does not have it any more, so the last one lets the volume be deleted
// at once (U-40).
func (c *Controller) fromAttachment(ctx context.Context, attachment *storagev1.VolumeAttachment) []string {
	names := world.AttachedVolume(attachment)
	for _, name := range names {
		pv, err := kube.Get(ctx, c.Cached, client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
		if err == nil && pv != nil {
			names = append(names, c.fromTwin(ctx, pv)...)
		}
	}
	return names
}

// releasing wakes up when a claim goes, or takes another volume than the one that is reserved for it.
func releasing(
	names func(context.Context, *corev1.PersistentVolumeClaim) []string,
) handler.TypedEventHandler[*corev1.PersistentVolumeClaim, string] {
	wake := func(ctx context.Context, claim *corev1.PersistentVolumeClaim, q queue) {
		for _, name := range names(ctx, claim) {
			q.Add(name)
		}
	}
	return handler.TypedFuncs[*corev1.PersistentVolumeClaim, string]{
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolumeClaim], q queue) {
			wake(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolumeClaim], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID || e.ObjectOld.Spec.VolumeName != e.ObjectNew.Spec.VolumeName {
				wake(ctx, e.ObjectNew, q)
			}
		},
	}
}

// fromClaim wakes up the volumes that only wait for the claim to be gone, in phases that the PV
// controller need not change then. For the others there will be an event of the volume.
func (c *Controller) fromClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) []string {
	var waiting corev1.PersistentVolumeList
	key := claim.Namespace + "/" + claim.Name
	if err := c.Cached.List(ctx, &waiting, client.MatchingFields{world.IndexAwaitedClaim: key},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil // there is no index before the first list, and each volume in it wakes up by itself
	}
	var names []string
	for i := range waiting.Items {
		names = append(names, c.fromVolume(ctx, &waiting.Items[i])...)
	}
	return names
}
