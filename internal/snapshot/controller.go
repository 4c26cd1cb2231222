package snapshot

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// The names of the snapshot-controller and of its controller of groups, and of their work queues, are
// upstream's (SN-Q1).
const (
	ControllerName      = "snapshot-controller-snapshot"
	GroupControllerName = "snapshot-controller-group-snapshot"
)

// ControllerConfig is what the snapshot-controller needs.
type ControllerConfig struct {
	reconcile.Settings
	Mode   rules.Settings
	Cached *kube.Overlay // objects must be whole but for their managed fields
	Live   client.Reader
	Writer client.Client // whose writes are laid over Cached
	// Operations times what happens to snapshots; nil for nothing.
	Operations *telemetry.SnapshotOperations
	// Together is what the roles of this process know of snapshots, with Mode.Together; nil for none. The
	// cache may then have only parts of claims, and has volumes.
	Together *handoff.Snapshots
}

type (
	// Controller works on all VolumeSnapshots of a cluster.
	Controller struct {
		snapshotTask
		// adds a source to the controller, which may run
		watch       func(source.TypedSource[types.NamespacedName]) error
		claimWrites sync.Mutex // two snapshots of one claim would conflict
		deleted     deletedContents
		// followsGroups says that the kinds of groups are served and cached.
		followsGroups atomic.Bool
	}
	// GroupController works on all VolumeGroupSnapshots of a cluster.
	GroupController struct {
		groupTask
		members *Controller
	}
	snapshotTask = task[
		*snapshotv1.VolumeSnapshot, *snapshotv1.VolumeSnapshotContent, *snapshotv1.VolumeSnapshotClass,
	]
	groupTask = task[
		*groupv1.VolumeGroupSnapshot, *groupv1.VolumeGroupSnapshotContent, *groupv1.VolumeGroupSnapshotClass,
	]
)

// NewController returns the controller without starting anything.
func NewController(cfg ControllerConfig) *Controller {
	cfg.Cached.Index(Indexes()...)
	return &Controller{snapshotTask: snapshotTask{&cfg, store{cfg.Cached, cfg.Writer}, telemetry.KeySnapshot}}
}

// Groups returns the controller of groups beside this controller.
func (c *Controller) Groups() *GroupController {
	c.Cached.Index(GroupIndexes()...)
	return &GroupController{groupTask{c.ControllerConfig, c.store, telemetry.KeyGroupSnapshot}, c}
}

type (
	snapshotLoop = reconcile.Loop[types.NamespacedName, rules.Snapshot, rules.Action]
	groupLoop    = reconcile.Loop[types.NamespacedName, rules.Group, rules.Action]
)

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *snapshotLoop {
	return loop[rules.Snapshot](c.Settings, ControllerName, c)
}

// Loop returns the controller with the loop around it.
func (g *GroupController) Loop() *groupLoop {
	return loop[rules.Group](g.Settings, GroupControllerName, g)
}

func loop[S any](
	settings reconcile.Settings, name string, t reconcile.Task[types.NamespacedName, S, rules.Action],
) *reconcile.Loop[types.NamespacedName, S, rules.Action] {
	return reconcile.New(reconcile.Config[types.NamespacedName, S, rules.Action]{
		Settings: settings, Name: name, Task: t, Retries: reconcile.NewRetries[types.NamespacedName](),
		Bound: reconcile.APITimeout,
	})
}

// AddTo registers the controller, its indexes and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), Indexes()...); err != nil {
		return err
	}
	if err := c.Cached.Watch(ctx, mgr.GetCache(), &snapshotv1.VolumeSnapshot{}, &snapshotv1.VolumeSnapshotContent{},
		&corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	cache := mgr.GetCache()
	return reconcile.Register(mgr, reconcile.Registration[types.NamespacedName]{
		Name: ControllerName, Workers: c.Workers, Reconciler: c.Loop(), Watch: &c.watch,
		Sources: []source.TypedSource[types.NamespacedName]{
			source.TypedKind(cache, &snapshotv1.VolumeSnapshot{}, onObject(&c.snapshotTask)),
			source.TypedKind(cache, &snapshotv1.VolumeSnapshotContent{}, c.contentEvents()),
			source.TypedKind(
				cache, &snapshotv1.VolumeSnapshotClass{}, onSource[*snapshotv1.VolumeSnapshotClass](&c.snapshotTask),
			),
			source.TypedKind(cache, &corev1.PersistentVolumeClaim{}, c.claimEvents()),
			source.TypedFunc[types.NamespacedName](c.fromRestores),
		},
	})
}

// AddTo registers the controller, its indexes and its event handlers with a manager. The cluster
// must serve the kinds of groups. The controller of VolumeSnapshots follows members from then on.
func (g *GroupController) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), GroupIndexes()...); err != nil {
		return err
	}
	cache := mgr.GetCache()
	if err := g.Cached.Watch(
		ctx, cache, &groupv1.VolumeGroupSnapshot{}, &groupv1.VolumeGroupSnapshotContent{},
	); err != nil {
		return err
	}

	// Returns when the cache has the groups: until then, members are left alone.
	if _, err := cache.GetInformer(ctx, &groupv1.VolumeGroupSnapshot{}); err != nil {
		return fmt.Errorf("cache of VolumeGroupSnapshots: %w", err)
	}
	g.FollowMembers()
	if err := g.members.watch(source.TypedKind(cache, &groupv1.VolumeGroupSnapshot{}, g.membersOf())); err != nil {
		return fmt.Errorf("controller %s: %w", ControllerName, err)
	}
	return reconcile.Register(mgr, reconcile.Registration[types.NamespacedName]{
		Name: GroupControllerName, Workers: g.Workers, Reconciler: g.Loop(),
		Sources: []source.TypedSource[types.NamespacedName]{
			source.TypedKind(cache, &groupv1.VolumeGroupSnapshot{}, onObject(&g.groupTask)),
			source.TypedKind(
				cache, &groupv1.VolumeGroupSnapshotContent{}, onContent[*groupv1.VolumeGroupSnapshotContent](),
			),
			source.TypedKind(
				cache, &groupv1.VolumeGroupSnapshotClass{}, onSource[*groupv1.VolumeGroupSnapshotClass](&g.groupTask),
			),
			source.TypedKind(cache, &snapshotv1.VolumeSnapshot{}, memberEvents()),
			source.TypedKind(
				cache, &corev1.PersistentVolumeClaim{}, onSource[*corev1.PersistentVolumeClaim](&g.groupTask),
			),
		},
	})
}

// FollowMembers has the controller of VolumeSnapshots work on members of groups. The cache must have
// the groups.
func (g *GroupController) FollowMembers() { g.members.followsGroups.Store(true) }

type queue = reconcile.Queue[types.NamespacedName]

// eventsOf are the handlers of the events of one kind, which enqueue groups or VolumeSnapshots.
type eventsOf[T client.Object] = handler.TypedEventHandler[T, types.NamespacedName]

// onObject enqueues an object, and notes how far it is.
func onObject[O requests, C contents, L classes](t *task[O, C, L]) eventsOf[O] {
	return reconcile.OnChange(func(_ context.Context, e reconcile.Change[O], q queue) {
		t.measure(e.Object(), e.IsDeleted())
		q.Add(client.ObjectKeyFromObject(e.Object()))
	})
}

// onContent enqueues the object that a content refers to.
func onContent[C contents]() eventsOf[C] {
	return reconcile.OnChange(func(_ context.Context, e reconcile.Change[C], q queue) {
		if ref := refOf(e.Object()); ref.Name != "" {
			q.Add(ref)
		}
	})
}

// onSource enqueues the objects that may wait for a class, or for a claim of their namespace to be
// bound or restored: those without a content, and groups that are being deleted.
func onSource[T client.Object, O requests, C contents, L classes](t *task[O, C, L]) eventsOf[T] {
	return reconcile.OnChange(func(ctx context.Context, e reconcile.Change[T], q queue) {
		for _, one := range cachedItems[O](ctx, t.Cached, client.InNamespace(e.Object().GetNamespace())) {
			if one.GetDeletionTimestamp() != nil || rules.StatusOf(one).Content == nil {
				q.Add(client.ObjectKeyFromObject(one))
			}
		}
	})
}

// cachedItems returns the items of a cached list for an event handler; none if the list fails, since
// the retry of each object sees the change.
func cachedItems[T client.Object](ctx context.Context, from client.Reader, options ...client.ListOption) []T {
	all, err := list[T](ctx, from, options...)
	if err != nil {
		return nil
	}
	return all
}

// claimEvents enqueues the snapshots that are taken of a claim, and the one that it is restored from.
func (c *Controller) claimEvents() eventsOf[*corev1.PersistentVolumeClaim] {
	return reconcile.OnChange(func(ctx context.Context, e reconcile.Change[*corev1.PersistentVolumeClaim], q queue) {
		claim := e.Object()
		if from, is := rules.RestoredFrom(claim); is {
			q.Add(from)
		} else if e.Old != nil { // the cache may drop the source of a bound claim
			if from, was := rules.RestoredFrom(e.Old); was {
				q.Add(from)
			}
		}
		for _, vs := range cachedItems[*snapshotv1.VolumeSnapshot](ctx, c.Cached,
			client.InNamespace(claim.Namespace), client.MatchingFields{indexSnapshotSource: claim.Name}) {
			if rules.NeedsClaim(vs) {
				q.Add(client.ObjectKeyFromObject(vs))
			}
		}
	})
}

// membersOf enqueues, for the controller of VolumeSnapshots, the members of a group that appears, is
// being deleted or is gone.
func (g *GroupController) membersOf() eventsOf[*groupv1.VolumeGroupSnapshot] {
	return reconcile.OnChange(func(ctx context.Context, e reconcile.Change[*groupv1.VolumeGroupSnapshot], q queue) {
		group := e.Object()
		if !e.IsCreated() && !e.IsDeleted() && group.DeletionTimestamp == nil {
			return
		}
		for _, member := range cachedItems[*snapshotv1.VolumeSnapshot](ctx, g.Cached,
			client.InNamespace(group.Namespace), client.MatchingFields{indexGroup: group.Name}) {
			q.Add(client.ObjectKeyFromObject(member))
		}
	})
}

// memberEvents enqueues the group of a member that was created or is gone.
func memberEvents() eventsOf[*snapshotv1.VolumeSnapshot] {
	return reconcile.OnChange(func(_ context.Context, e reconcile.Change[*snapshotv1.VolumeSnapshot], q queue) {
		if group := rules.GroupOf(e.Object()); group != "" && (e.IsCreated() || e.IsDeleted()) {
			q.Add(types.NamespacedName{Namespace: e.Object().Namespace, Name: group})
		}
	})
}
