package binder

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/reconcile"
)

type queue = workqueue.TypedRateLimitingInterface[binding.Key]

// watches updates the store and then enqueues keys, with one event handler for each kind.
type watches struct {
	binder *Controller
	cache  cache.Cache
	queue  queue
	synced []toolscache.InformerSynced
}

// Start implements source.TypedSource.
func (w *watches) Start(ctx context.Context, q queue) error {
	b := w.binder
	w.queue = q
	l := b.objectStore
	return errors.Join(
		watch(ctx, w, &storagev1.StorageClass{}, func(o, now *storagev1.StorageClass) {
			b.enqueue(l.classSeen(o.Name, now))
		}),
		watch(
			ctx, w, &corev1.PersistentVolumeClaim{}, func(o, now *corev1.PersistentVolumeClaim) { b.claimSeen(o, now) },
		),
		watch(ctx, w, &corev1.PersistentVolume{}, func(o, now *corev1.PersistentVolume) { b.volumeSeen(o, now) }),
		watch(
			ctx, w, &corev1.Pod{},
			func(o, now *corev1.Pod) { b.enqueue(l.podSeen(client.ObjectKeyFromObject(o), now)) },
		),
	)
}

// WaitForSync implements source.TypedSyncingSource: nothing is decided before the first list of
// every kind is in the store.
func (w *watches) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), w.synced...) {
		return fmt.Errorf("the first lists of claims, volumes, classes and pods did not come: %w", ctx.Err())
	}
	w.binder.synced <- w.queue
	return nil
}

// watch passes each change of a kind to seen: the object, and the object again unless it is gone.
func watch[T client.Object](ctx context.Context, w *watches, of T, seen func(o, now T)) error {
	informer, err := w.cache.GetInformer(ctx, of, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %T: %w", of, err)
	}
	registration, err := informer.AddEventHandler(
		reconcile.InformerHandler(func(c reconcile.Change[T]) { seen(c.Object(), c.New) }),
	)
	if err != nil {
		return fmt.Errorf("watch %T: %w", of, err)
	}
	w.synced = append(w.synced, registration.HasSynced)
	return nil
}

func (c *Controller) claimSeen(o, now *corev1.PersistentVolumeClaim) {
	keys := c.objectStore.claimSeen(keyOf(o), o, now)
	if now == nil {
		c.measures.claimGone(keyOf(o))
		// took its name, and may have gone as well while the watch was broken
		if other := c.objectStore.newestClaim(keyOf(o)); other != nil {
			c.expireLiveRead(func() []binding.Key { return c.objectStore.doubtClaim(other) })
		}
	}
	c.enqueue(c.restless(keys))
}

func (c *Controller) volumeSeen(o, now *corev1.PersistentVolume) {
	keys := c.objectStore.volumeSeen(o.Name, o, now)
	if now == nil {
		c.measures.volumeGone(o.Name)
		if other := c.objectStore.newestVolume(o.Name); other != nil {
			c.expireLiveRead(func() []binding.Key { return c.objectStore.forgetUnwatched(other) })
		}
	}
	c.enqueue(c.restless(keys))
}

// restless leaves out the keys of bound pairs that need nothing: most events are caused by our own
// writes. The key of a claim that another binder bound while a volume was held for it is enqueued,
// since the end of the run releases that volume.
func (c *Controller) restless(keys []binding.Key) []binding.Key {
	c.objectStore.mu.Lock()
	defer c.objectStore.mu.Unlock()
	kept := keys[:0]
	for _, key := range keys {
		if key.Volume == "" && c.objectStore.atRest(key.Claim) && !c.objectStore.holds[key.Claim].idle() &&
			c.retries.Get(key).Failed == 0 {
			c.objectStore.pass(key.Claim)
			continue
		}
		kept = append(kept, key)
	}
	return kept
}
