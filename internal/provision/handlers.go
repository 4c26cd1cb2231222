package provision

import (
	"context"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// fromClaim enqueues unbound claims of this driver, and claims with a journal entry or a backoff.
// Other claims of the cluster cost nothing (C-1).
func (c *Controller) fromClaim(_ context.Context, claim *corev1.PersistentVolumeClaim) []provision.Key {
	key := keyOf(claim)
	unbound := claim.Spec.VolumeName == "" && c.asksUs(claim)
	if c.isElsewhere(claim) {
		unbound = false
	}
	if _, pending := c.Journal.Pending(claim.UID); !unbound && !pending && !c.retries.Has(key) {
		return nil
	}
	return []provision.Key{key}
}

func (c *Controller) asksUs(claim *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(provision.RequestedDrivers(claim), c.Driver.Name) || c.HandedOver.Has(claim.UID)
}

// fromClass enqueues the claims of a class that was created or edited.
func (c *Controller) fromClass(ctx context.Context, class *storagev1.StorageClass) []provision.Key {
	c.logOutdated(ctx, class)
	var claims corev1.PersistentVolumeClaimList
	if err := c.Cached.List(ctx, &claims, client.MatchingFields{IndexProvisionedClass: class.Name}); err != nil {
		return nil // the backoff requeues each claim
	}
	var keys []provision.Key
	for i := range claims.Items {
		keys = append(keys, c.fromClaim(ctx, &claims.Items[i])...)
	}
	return keys
}

// logOutdated logs the deprecated parameters of a class, once per class: parameters are immutable
//
func (c *Controller) logOutdated(ctx context.Context, class *storagev1.StorageClass) {
	outdated := provision.OutdatedKeys(class)
	if class.Provisioner != c.Driver.Name || len(outdated) == 0 {
		return
	}
	if _, known := c.outdated.LoadOrStore(class.UID, true); known {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(outdated)) {
		logr.FromContextOrDiscard(ctx).Info("a parameter of the StorageClass is deprecated and still works",
			telemetry.KeyClass, class.Name, "parameter", key, "instead", outdated[key])
	}
}

// edited reports whether a mutable field of the class that requests depend on has changed (H-43).
func edited(was, is *storagev1.StorageClass) bool {
	return !slices.Equal(was.MountOptions, is.MountOptions) ||
		!equality.Semantic.DeepEqual(was.AllowedTopologies, is.AllowedTopologies)
}

// fromVolume enqueues the claim of a deleted PersistentVolume: it may have been deleted before the
// claim was bound, or have been in conflict with the claim's volume.
func (c *Controller) fromVolume(ctx context.Context, pv *corev1.PersistentVolume) []provision.Key {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return nil
	}
	var claim corev1.PersistentVolumeClaim
	if err := c.Cached.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, &claim); err != nil {
		return nil
	}
	return c.fromClaim(ctx, &claim)
}

// fromJournal enqueues the entries of a previous leader: a claim may be deleted, so that no event
// comes for it.
func (c *Controller) fromJournal(ctx context.Context, q queue) error {
	go func() {
		if err := c.Journal.Wait(ctx); err != nil {
			return // the process is ending
		}
		for _, e := range c.Journal.Entries() {
			q.Add(provision.Key{NamespacedName: e.Claim, UID: e.UID})
		}
	}()
	return nil
}

func keyOf(claim *corev1.PersistentVolumeClaim) provision.Key {
	return provision.Key{NamespacedName: client.ObjectKeyFromObject(claim), UID: claim.UID}
}

type mapper[T client.Object] func(context.Context, T) []provision.Key

func (m mapper[T]) enqueue(ctx context.Context, object T, q queue) {
	for _, key := range m(ctx, object) {
		q.Add(key)
	}
}

// latest enqueues an object for its new state. The old state matters only if it has another uid,
// which was deleted while the watch was broken. The last update of most claims is their binding,
// which needs no run.
func latest[T client.Object](m mapper[T]) handler.TypedEventHandler[T, provision.Key] {
	return handler.TypedFuncs[T, provision.Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[T], q queue) { m.enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[T], q queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				m.enqueue(ctx, e.ObjectOld, q)
			}
			m.enqueue(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], q queue) { m.enqueue(ctx, e.Object, q) },
	}
}

// created enqueues an object that is new, or whose edit matters.
func created[T client.Object](m mapper[T], edited func(was, is T) bool) handler.TypedEventHandler[T, provision.Key] {
	return handler.TypedFuncs[T, provision.Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[T], q queue) { m.enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[T], q queue) {
			// Another uid means that the object was deleted and created again while the watch was
			// broken.
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || edited(e.ObjectOld, e.ObjectNew) {
				m.enqueue(ctx, e.ObjectNew, q)
			}
		},
	}
}

func deleted[T client.Object](m mapper[T]) handler.TypedEventHandler[T, provision.Key] {
	return handler.TypedFuncs[T, provision.Key]{
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], q queue) { m.enqueue(ctx, e.Object, q) },
	}
}
