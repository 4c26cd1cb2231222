package resize

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/reconcile"
)

// Interest says which claims a controller enqueues, and when.
type Interest struct {
	// Concerns reports whether a claim can need this controller.
	Concerns func(*corev1.PersistentVolumeClaim) bool
	// Changed reports whether a claim's change is an input of the controller's decision.
	Changed func(old, current *corev1.PersistentVolumeClaim) bool
	// VolumeChanged is the same for its volume; nil for never. A volume that appears always counts.
	VolumeChanged func(old, current *corev1.PersistentVolume) bool
	// VolumeConcerns reports whether a volume needs this controller although its claim does not; nil
	// for never.
	VolumeConcerns func(*corev1.PersistentVolume) bool
	// Remembered reports whether the controller has state of a claim, which it must drop when the
	// claim is deleted.
	Remembered func(objects.ClaimKey) bool
	// Serves reports whether the volume is one of the controller's driver.
	Serves func(*corev1.PersistentVolume) bool
}

// watch lays this process's writes over the cached claims and volumes.
func (s Store) watch(ctx context.Context, mgr manager.Manager) error {
	return s.Cached.Watch(
		ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{},
	)
}

// Queue is the work queue of a controller of claims.
type Queue = reconcile.Queue[objects.ClaimKey]

// ClaimEvents returns the event handler that enqueues claims.
func (s Store) ClaimEvents(i Interest) handler.TypedEventHandler[*corev1.PersistentVolumeClaim, objects.ClaimKey] {
	return handler.TypedFuncs[*corev1.PersistentVolumeClaim, objects.ClaimKey]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.PersistentVolumeClaim], q Queue) {
			if i.Concerns(e.Object) || s.hasVolume(ctx, e.Object, i.VolumeConcerns) {
				q.Add(objects.KeyOfClaim(e.Object))
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolumeClaim], q Queue) {
			if old := objects.KeyOfClaim(e.ObjectOld); old.UID != e.ObjectNew.UID && i.Remembered(old) {
				q.Add(old)
			}
			if i.Changed(e.ObjectOld, e.ObjectNew) {
				q.Add(objects.KeyOfClaim(e.ObjectNew))
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolumeClaim], q Queue) {
			if key := objects.KeyOfClaim(e.Object); i.Remembered(key) {
				q.Add(key)
			}
		},
	}
}

// VolumeEvents returns the event handler that enqueues the claim of a volume.
func (s Store) VolumeEvents(i Interest) handler.TypedEventHandler[*corev1.PersistentVolume, objects.ClaimKey] {
	enqueue := func(ctx context.Context, pv *corev1.PersistentVolume, q Queue) {
		ref := pv.Spec.ClaimRef
		if ref == nil || ref.UID == "" || !i.Serves(pv) {
			return
		}
		key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		claim, err := kube.Get(ctx, s.Cached, key, &corev1.PersistentVolumeClaim{})
		if err != nil || claim == nil || claim.UID != ref.UID {
			return
		}
		if i.Concerns(claim) || i.VolumeConcerns != nil && i.VolumeConcerns(pv) {
			q.Add(objects.KeyOfClaim(claim))
		}
	}
	return handler.TypedFuncs[*corev1.PersistentVolume, objects.ClaimKey]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.PersistentVolume], q Queue) {
			enqueue(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolume], q Queue) {
			if i.VolumeChanged != nil && i.VolumeChanged(e.ObjectOld, e.ObjectNew) {
				enqueue(ctx, e.ObjectNew, q)
			}
		},
	}
}

// hasVolume reports whether the cache has a volume of the claim with a property. The cache may show
// either of the two first.
func (s Store) hasVolume(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, property func(*corev1.PersistentVolume) bool,
) bool {
	if property == nil || claim.Spec.VolumeName == "" {
		return false
	}
	pv, err := kube.Get(ctx, s.Cached, types.NamespacedName{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{})
	return err == nil && pv != nil && property(pv)
}
