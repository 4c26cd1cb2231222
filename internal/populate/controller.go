package populate

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
	populate "github.com/purser-csi/purser/internal/populate/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

// Name of the controller and of its work queue.
const Name = "populate"

// Config has the dependencies of the controller.
type Config struct {
	reconcile.Settings
	Rules     populate.Settings
	Populator Populator
	Image     string // of the pods

	Cached  *kube.Overlay
	Sources client.Reader // the sources from the informer cache
	Live    client.Reader
	Writer  client.Client
	// Progress reads the progress of the pod at an address; nil for none.
	Progress func(ctx context.Context, address string) (populate.Progress, bool)
	Metrics  *telemetry.Populating
}

// Key is a user's claim. One that was created again under its name has another key.
type Key = kube.Key

type queue = reconcile.Queue[Key]

// Controller is the task that package reconcile runs.
type Controller struct{ Config }

// New returns the controller without starting anything.
func New(cfg Config) *Controller {
	c := &Controller{cfg}
	c.Cached.Index(c.Indexes()...)
	return c
}

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[Key, populate.Snapshot, populate.Action] {
	return reconcile.New(reconcile.Config[Key, populate.Snapshot, populate.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: reconcile.NewRetries[Key](), Bound: reconcile.APITimeout,
		LastingReason: verdict.PopulatorWriteFailed,
		Observe: func(key Key, s populate.Snapshot, _ verdict.Verdict[populate.Action], _ time.Duration) {
			written := int64(0)
			if s.Progress != nil {
				written = s.Progress.Done
			}
			if s.Outcome != nil {
				written = s.Outcome.Written
			}
			c.Metrics.Observe(string(key.UID), s.Pod != nil, written)
		},
	})
}

// AddTo registers the controller, its indexes and its event handlers with a manager. The API server must
// serve the sources.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), c.Indexes()...); err != nil {
		return err
	}
	cache := mgr.GetCache()
	if err := c.Cached.Watch(ctx, cache, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}); err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(c.Populator.Source)
	return reconcile.Register(mgr, reconcile.Registration[Key]{
		Name: Name, Workers: c.Workers, Reconciler: c.Loop(),
		Sources: []source.TypedSource[Key]{
			source.TypedKind(cache, &corev1.PersistentVolumeClaim{}, c.claimChanges()),
			source.TypedKind(cache, &corev1.PersistentVolume{}, c.volumeChanges()),
			source.TypedKind(cache, &corev1.Pod{}, c.podChanges()),
			source.TypedKind(cache, &storagev1.StorageClass{}, c.classChanges()),
			source.TypedKind(cache, object, c.sourceChanges()),
		},
	})
}

// The indexes of the controller.
const (
	indexSource = "populateSource" // claims without a volume, by NAMESPACE/NAME of their source
	indexClass  = "populateClass"  // the same claims by their class
	indexGiven  = "populateGiven"  // volumes by the uid of spec.claimRef
)

// Indexes are the indexes of the controller.
func (c *Controller) Indexes() []kube.Index {
	waiting := func(claim *corev1.PersistentVolumeClaim) (string, bool) {
		ref, isOurs := c.Rules.SourceOf(claim)
		return ref.Namespace + "/" + ref.Name, isOurs && claim.Spec.VolumeName == ""
	}
	return []kube.Index{
		kube.IndexBy(indexSource, func(claim *corev1.PersistentVolumeClaim) []string {
			if name, waits := waiting(claim); waits {
				return []string{name}
			}
			return nil
		}),
		kube.IndexBy(indexClass, func(claim *corev1.PersistentVolumeClaim) []string {
			if _, waits := waiting(claim); waits && objects.ClaimClass(claim) != "" {
				return []string{objects.ClaimClass(claim)}
			}
			return nil
		}),
		kube.IndexBy(indexGiven, func(pv *corev1.PersistentVolume) []string {
			if pv.Annotations[c.Rules.PopulatedFrom()] == "" || pv.Spec.ClaimRef == nil {
				return nil
			}
			return []string{string(pv.Spec.ClaimRef.UID)}
		}),
	}
}

// claimChanges enqueues claims with a source of the populator, and the claims of prime claims.
func (c *Controller) claimChanges() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, Key] {
	return reconcile.OnChange(func(
		_ context.Context, change reconcile.Change[*corev1.PersistentVolumeClaim], q queue,
	) {
		claim := change.Object()
		if _, isOurs := c.Rules.SourceOf(claim); isOurs {
			q.Add(kube.KeyOf(claim))
		}
		c.enqueueMarked(claim, q)
	})
}

// podChanges enqueues the claims of pods.
func (c *Controller) podChanges() handler.TypedEventHandler[*corev1.Pod, Key] {
	return reconcile.OnChange(func(_ context.Context, change reconcile.Change[*corev1.Pod], q queue) {
		c.enqueueMarked(change.Object(), q)
	})
}

func (c *Controller) enqueueMarked(o populate.Marked, q queue) {
	if name, uid, is := c.Rules.ClaimOf(o); is {
		q.Add(Key{NamespacedName: name, UID: uid})
	}
}

// volumeChanges enqueues the claims of the prime claims that volumes name.
func (c *Controller) volumeChanges() handler.TypedEventHandler[*corev1.PersistentVolume, Key] {
	return reconcile.OnChange(func(ctx context.Context, change reconcile.Change[*corev1.PersistentVolume], q queue) {
		ref := change.Object().Spec.ClaimRef
		switch {
		case ref == nil:
		case ref.Namespace == c.Rules.Namespace && strings.HasPrefix(ref.Name, populate.PrimePrefix):
			name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
			prime, err := kube.Get(ctx, c.Cached, name, &corev1.PersistentVolumeClaim{})
			if err == nil && prime != nil {
				c.enqueueMarked(prime, q)
			}
		case change.Object().Annotations[c.Rules.PopulatedFrom()] != "":
			q.Add(Key{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, UID: ref.UID})
		}
	})
}

// classChanges enqueues the claims that wait for a class.
func (c *Controller) classChanges() handler.TypedEventHandler[*storagev1.StorageClass, Key] {
	return reconcile.OnChange(func(ctx context.Context, change reconcile.Change[*storagev1.StorageClass], q queue) {
		c.enqueueClaims(ctx, q, client.MatchingFields{indexClass: change.Object().Name})
	})
}

// sourceChanges enqueues the claims that wait for a source, by the namespace that they name (VP-H3).
func (c *Controller) sourceChanges() handler.TypedEventHandler[*unstructured.Unstructured, Key] {
	return reconcile.OnChange(func(ctx context.Context, change reconcile.Change[*unstructured.Unstructured], q queue) {
		o := change.Object()
		c.enqueueClaims(ctx, q, client.MatchingFields{indexSource: o.GetNamespace() + "/" + o.GetName()})
	})
}

func (c *Controller) enqueueClaims(ctx context.Context, q queue, by client.MatchingFields) {
	var claims corev1.PersistentVolumeClaimList
	if err := c.Cached.List(ctx, &claims, by); err != nil {
		return // only if there is no such index
	}
	for i := range claims.Items {
		q.Add(kube.KeyOf(&claims.Items[i]))
	}
}
