package provision

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/controllers/loop"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Config is what the controller needs.
type Config struct {
	loop.Settings               // Workers are the calls to the driver that are under way at once
	Cached        client.Reader // answers from memory
	Live          client.Reader // answers from the API server
	Writer        client.Writer
	Volumes       *kube.Recent[*corev1.PersistentVolume] // shared with controllers/reclaim
	Journal       Journal
	// HandedOver are the claims that the binder in this process asks for; nil when there is none.
	HandedOver HandedOver
	CSI        csi.ControllerClient
	Driver     provision.Driver
	Options    provision.Options

	Timeout    time.Duration         // of one call to the driver
	Provisions *telemetry.Operations // nil for none
	InFlight   *prometheus.GaugeVec
}

// Name of the controller and of its work queue, as upstream's metrics have it (ME-6).
const Name = "claims"

// IndexClass finds the unbound claims of a StorageClass.
const IndexClass = "class"

// IndexDriver finds the unbound claims that were given to a driver.
const IndexDriver = "driver"

// apiBound is the part of the time of one run that is for the API server.
const apiBound = 30 * time.Second

// runsPerCall is how many claims are worked on for each call that may be under way: while one is with the driver, the next one waits
// for its record to be written.
const runsPerCall = 2

// Controller is the task that controllers/loop runs.
type Controller struct {
	Config
	retries  *loop.Retries[provision.Key]
	finished *finished
	secrets  *secretVersions
	slots    chan struct{} // has an element for each call under way
}

// New returns the controller without starting anything.
func New(cfg Config) *Controller {
	if cfg.HandedOver == nil {
		cfg.HandedOver = nobody{}
	}
	return &Controller{
		Config: cfg, retries: loop.NewRetries[provision.Key](), finished: newFinished(), secrets: newSecretVersions(),
		slots: make(chan struct{}, max(cfg.Workers, 1)),
	}
}

// Loop is the controller with the loop around it. A run may wait for the calls of those that share its place before it makes its own.
func (c *Controller) Loop() *loop.Loop[provision.Key, provision.Snapshot, provision.Action] {
	return loop.New(loop.Config[provision.Key, provision.Snapshot, provision.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: c.retries, Bound: runsPerCall*c.Timeout + apiBound,
		Finally: func(key provision.Key) { c.Journal.Done(key.UID) },
		Observe: c.observe,
	})
}

// AddTo registers the controller, its index and its wake-ups with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	for name, value := range map[string]func(*corev1.PersistentVolumeClaim) []string{IndexClass: className, IndexDriver: provision.Asked} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.PersistentVolumeClaim{}, name, unbound(value)); err != nil {
			return fmt.Errorf("index claims by %s: %w", name, err)
		}
	}
	claims, err := mgr.GetCache().GetInformer(ctx, &corev1.PersistentVolumeClaim{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	if _, err := claims.AddEventHandler(settledClaims(c.finished.forget, c.HandedOver.Forget)); err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	if err := kube.Follow(ctx, mgr.GetCache(), &storagev1.StorageClass{}, &corev1.PersistentVolume{}); err != nil {
		return err
	}
	ctrl, err := controller.NewTyped(Name, mgr, controller.TypedOptions[provision.Key]{
		Reconciler: c.Loop(), MaxConcurrentReconciles: runsPerCall * c.Workers, NewQueue: loop.NewQueue[provision.Key],
	})
	if err != nil {
		return fmt.Errorf("controller %s: %w", Name, err)
	}
	for _, wakeUp := range []source.TypedSource[provision.Key]{
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, latest(c.fromClaim)),
		source.TypedKind(mgr.GetCache(), &storagev1.StorageClass{}, created(c.fromClass)),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, deleted(c.fromVolume)),
		source.TypedFunc[provision.Key](c.fromJournal),
		source.TypedFunc[provision.Key](c.fromBinder),
	} {
		if err := ctrl.Watch(wakeUp); err != nil {
			return fmt.Errorf("controller %s: %w", Name, err)
		}
	}
	return nil
}

// unbound is an index without the claims that have a volume, which are nearly all.
func unbound(value func(*corev1.PersistentVolumeClaim) []string) client.IndexerFunc {
	return func(o client.Object) []string {
		claim, ok := o.(*corev1.PersistentVolumeClaim)
		if !ok || claim.Spec.VolumeName != "" {
			return nil
		}
		return value(claim)
	}
}

func className(claim *corev1.PersistentVolumeClaim) []string {
	return []string{provision.ClassName(claim)}
}

// fromClaim wakes up for claims that may be ours and have no volume yet, and for those of which something is remembered; the rest of the
// cluster's claims cost nothing (C-1).
func (c *Controller) fromClaim(_ context.Context, claim *corev1.PersistentVolumeClaim) []provision.Key {
	key := keyOf(claim)
	unbound := claim.Spec.VolumeName == "" && c.asksUs(claim)
	if _, pending := c.Journal.Pending(claim.UID); !unbound && !pending && !c.retries.Has(key) {
		return nil
	}
	return []provision.Key{key}
}

func (c *Controller) asksUs(claim *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(provision.Asked(claim), c.Driver.Name) || c.HandedOver.Has(claim.UID)
}

// fromClass wakes up the claims that waited for a class to appear.
func (c *Controller) fromClass(ctx context.Context, class *storagev1.StorageClass) []provision.Key {
	var claims corev1.PersistentVolumeClaimList
	if err := c.Cached.List(ctx, &claims, client.MatchingFields{IndexClass: class.Name}); err != nil {
		return nil // the retry of each claim comes in any case
	}
	var keys []provision.Key
	for i := range claims.Items {
		keys = append(keys, c.fromClaim(ctx, &claims.Items[i])...)
	}
	return keys
}

// fromVolume wakes up the claim whose PersistentVolume went away before they were bound, or stood in the way.
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

// fromJournal wakes up for what a former process left unsettled: its claim may be gone, so that no other wake-up comes.
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

// latest wakes up for what an object is now. What it was matters only when that was another one, which was deleted while the watch was
// broken: most claims change last when they get their volume, and then there is nothing left to do.
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

func created[T client.Object](m mapper[T]) handler.TypedEventHandler[T, provision.Key] {
	return handler.TypedFuncs[T, provision.Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[T], q queue) { m.enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[T], q queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() { // deleted and created again while the watch was broken
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
