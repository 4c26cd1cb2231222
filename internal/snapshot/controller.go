package snapshot

import (
	"context"
	"sync"
	"sync/atomic"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// ControllerName is the name of the snapshot-controller and of its work queue, as upstream's (SN-Q1).
const ControllerName = "snapshot-controller-snapshot"

// ControllerConfig is what the snapshot-controller needs.
type ControllerConfig struct {
	reconcile.Settings
	Mode   rules.Settings
	Cached client.Reader // objects must be whole but for their managed fields
	Live   client.Reader
	Writer client.Client
	// Operations times what happens to snapshots; nil for nothing.
	Operations *telemetry.SnapshotOperations
}

// Controller works on all VolumeSnapshots of a cluster.
type Controller struct {
	ControllerConfig
	retries   *reconcile.Retries[types.NamespacedName]
	snapshots store[*snapshotv1.VolumeSnapshot]
	contents  store[*snapshotv1.VolumeSnapshotContent]
	claims    store[*corev1.PersistentVolumeClaim]

	watch       func(source.TypedSource[types.NamespacedName]) error // adds a source to the controller, which may run
	claimWrites sync.Mutex                                           // two snapshots of one claim would conflict
	// followsGroups says that the kinds of groups are served and cached.
	followsGroups atomic.Bool
}

// NewController returns the controller without starting anything.
func NewController(cfg ControllerConfig) *Controller {
	return &Controller{
		ControllerConfig: cfg, retries: reconcile.NewRetries[types.NamespacedName](),
		snapshots: newStore("VolumeSnapshot", snapshotv1.Resource("volumesnapshots"), cfg.Cached, cfg.Writer,
			&snapshotv1.VolumeSnapshot{}),
		contents: newContentStore(cfg.Cached, cfg.Writer),
		claims: newStore("claim", corev1.Resource("persistentvolumeclaims"), cfg.Cached, cfg.Writer,
			&corev1.PersistentVolumeClaim{}),
	}
}

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[types.NamespacedName, rules.Snapshot, rules.Action] {
	return reconcile.New(reconcile.Config[types.NamespacedName, rules.Snapshot, rules.Action]{
		Settings: c.Settings, Name: ControllerName, Task: c, Retries: c.retries, Bound: reconcile.APITimeout,
	})
}

// AddTo registers the controller, its indexes and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), Indexes()...); err != nil {
		return err
	}
	return reconcile.Register(mgr, reconcile.Registration[types.NamespacedName]{
		Name: ControllerName, Workers: c.Workers, Reconciler: c.Loop(), Watch: &c.watch,
		Sources: []source.TypedSource[types.NamespacedName]{
			source.TypedKind(mgr.GetCache(), &snapshotv1.VolumeSnapshot{}, onAny(c, c.sawSnapshot)),
			source.TypedKind(mgr.GetCache(), &snapshotv1.VolumeSnapshotContent{}, onAny(c, sawContent)),
			source.TypedKind(mgr.GetCache(), &snapshotv1.VolumeSnapshotClass{}, onAny(c, c.sawClass)),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, onAny(c, c.sawClaim)),
		},
	})
}

func refOf(content *snapshotv1.VolumeSnapshotContent) types.NamespacedName {
	return types.NamespacedName{
		Namespace: content.Spec.VolumeSnapshotRef.Namespace,
		Name:      content.Spec.VolumeSnapshotRef.Name,
	}
}

type queue = reconcile.Queue[types.NamespacedName]

// observer notes what came through the watches, before the keys that it leads to are enqueued.
type observer interface {
	Saw(o client.Object)
	Gone(o client.Object)
}

// Saw notes an object that came through a watch, so that what this process wrote to it before is
// forgotten.
func (c *Controller) Saw(o client.Object) {
	switch o := o.(type) {
	case *snapshotv1.VolumeSnapshot:
		c.snapshots.Saw(o)
		c.measure(o, false)
	case *snapshotv1.VolumeSnapshotContent:
		c.contents.Saw(o)
	case *corev1.PersistentVolumeClaim:
		c.claims.Saw(o)
	}
}

// Gone notes an object that a watch shows as deleted.
func (c *Controller) Gone(o client.Object) {
	switch o := o.(type) {
	case *snapshotv1.VolumeSnapshot:
		c.snapshots.Gone(o)
		c.measure(o, true)
	case *snapshotv1.VolumeSnapshotContent:
		c.contents.Gone(o)
	case *corev1.PersistentVolumeClaim:
		c.claims.Gone(o)
	}
}

// onAny has every event of a kind noted, and then enqueues what the object is about.
func onAny[T client.Object](by observer, enqueue func(context.Context, T, queue)) eventsOf[T] {
	return reconcile.OnChange(func(ctx context.Context, e reconcile.Change[T], q queue) {
		if e.IsDeleted() {
			by.Gone(e.Object())
		} else {
			by.Saw(e.Object())
		}
		enqueue(ctx, e.Object(), q)
	})
}

// cachedItems returns the items of a cached list for an event handler; none if the list fails, since
// the retry of each object sees the change.
func cachedItems[T client.Object](
	ctx context.Context, from client.Reader, list client.ObjectList, options ...client.ListOption,
) (all []T) {
	if err := from.List(ctx, list, options...); err != nil {
		return nil
	}
	_ = meta.EachListItem(list, func(o runtime.Object) error { // no item returns an error
		if item, is := o.(T); is {
			all = append(all, item)
		}
		return nil
	})
	return all
}

func (c *Controller) sawSnapshot(_ context.Context, vs *snapshotv1.VolumeSnapshot, q queue) {
	q.Add(client.ObjectKeyFromObject(vs))
}

func sawContent(_ context.Context, content *snapshotv1.VolumeSnapshotContent, q queue) {
	if ref := refOf(content); ref.Name != "" {
		q.Add(ref)
	}
}

// sawClass enqueues the snapshots that may wait for a class: those without a content.
func (c *Controller) sawClass(ctx context.Context, _ *snapshotv1.VolumeSnapshotClass, q queue) {
	for _, vs := range cachedItems[*snapshotv1.VolumeSnapshot](ctx, c.Cached, &snapshotv1.VolumeSnapshotList{}) {
		if vs.Status == nil || vs.Status.BoundVolumeSnapshotContentName == nil {
			q.Add(client.ObjectKeyFromObject(vs))
		}
	}
}

// sawClaim enqueues the snapshots that are taken of a claim, and the one that it is restored from.
func (c *Controller) sawClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, q queue) {
	if from, is := rules.RestoredFrom(claim); is {
		q.Add(from)
	}
	for _, vs := range cachedItems[*snapshotv1.VolumeSnapshot](ctx, c.Cached, &snapshotv1.VolumeSnapshotList{},
		client.InNamespace(claim.Namespace), client.MatchingFields{IndexSnapshotSource: claim.Name}) {
		if rules.NeedsClaim(vs) {
			q.Add(client.ObjectKeyFromObject(vs))
		}
	}
}
