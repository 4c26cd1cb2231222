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

	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/world"
)

// fromClaim wakes up for claims that may be ours and have no volume yet, and for those of which
// something is remembered; the rest of the cluster's claims cost nothing (C-1).
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
	return slices.Contains(provision.Asked(claim), c.Driver.Name) || c.HandedOver.Has(claim.UID)
}

// fromClass wakes up the claims that waited for a class to appear, or for an edit of it.
func (c *Controller) fromClass(ctx context.Context, class *storagev1.StorageClass) []provision.Key {
	c.tellOutdated(ctx, class)
	var claims corev1.PersistentVolumeClaimList
	if err := c.Cached.List(ctx, &claims, client.MatchingFields{world.IndexProvisionedClass: class.Name}); err != nil {
		return nil // the retry of each claim comes in any case
	}
	var keys []provision.Key
	for i := range claims.Items {
		keys = append(keys, c.fromClaim(ctx, &claims.Items[i])...)
	}
	return keys
}

// tellOutdated names the keys of a class of ours that have newer names, once for each class: its
// parameters cannot be edited.
func (c *Controller) tellOutdated(ctx context.Context, class *storagev1.StorageClass) {
	outdated := provision.OutdatedKeys(class)
	if class.Provisioner != c.Driver.Name || len(outdated) == 0 {
		return
	}
	if _, told := c.outdated.LoadOrStore(class.UID, true); told {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(outdated)) {
		logr.FromContextOrDiscard(ctx).Info("a parameter of the StorageClass is deprecated and still works",
			telemetry.KeyClass, class.Name, "parameter", key, "instead", outdated[key])
	}
}

// edited reports whether a class has got another value in a field that requests depend on, and that
// may be edited (H-43).
func edited(was, is *storagev1.StorageClass) bool {
	return !slices.Equal(was.MountOptions, is.MountOptions) ||
		!equality.Semantic.DeepEqual(was.AllowedTopologies, is.AllowedTopologies)
}

// fromVolume wakes up the claim whose PersistentVolume went away before they were bound, or stood
// in the way.
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

// fromJournal enqueues what a previous leader left unresolved: its claim may be gone, so that no
// event comes for it.
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

// latest wakes up for what an object is now. What it was matters only when that was another one,
// which was deleted while the watch was broken: most claims change last when they get their volume,
// and then there is nothing left to do.
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

// created wakes up for an object that is new, or that was edited so that it matters.
func created[T client.Object](m mapper[T], edited func(was, is T) bool) handler.TypedEventHandler[T, provision.Key] {
	return handler.TypedFuncs[T, provision.Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[T], q queue) { m.enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[T], q queue) {
			// Another uid is one that was deleted and created again while the watch was broken.
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
