package snapshot

import (
	"context"
	"fmt"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// GroupControllerName is the name of the snapshot-controller's controller of groups and of its work
// queue, as upstream's (SN-Q1).
const GroupControllerName = "snapshot-controller-group-snapshot"

// Indexes of the cache that groups need.
const (
	indexGroup  = "snapshotGroup"        // VolumeSnapshots by the name of the group that they are members of
	indexHandle = "snapshotVolumeHandle" // volumes by driver and handle
	// indexGroupRef finds the contents of groups by the VolumeGroupSnapshot that they refer to.
	indexGroupRef = "snapshotGroupRef"
)

// GroupController works on all VolumeGroupSnapshots of a cluster. It shares with the controller of
// VolumeSnapshots what this process wrote.
type GroupController struct {
	*Controller
	retries       *reconcile.Retries[types.NamespacedName]
	groups        store[*groupv1.VolumeGroupSnapshot]
	groupContents store[*groupv1.VolumeGroupSnapshotContent]
}

// Groups returns the controller of groups beside this controller.
func (c *Controller) Groups() *GroupController {
	return &GroupController{
		Controller: c, retries: reconcile.NewRetries[types.NamespacedName](),
		groups: newStore("VolumeGroupSnapshot", groupv1.Resource("volumegroupsnapshots"), c.Cached, c.Writer,
			&groupv1.VolumeGroupSnapshot{}),
		groupContents: newGroupContentStore(c.Cached, c.Writer),
	}
}

type groupLoop = reconcile.Loop[types.NamespacedName, rules.Group, rules.GroupAction]

// Loop returns the controller with the loop around it.
func (g *GroupController) Loop() *groupLoop {
	return reconcile.New(reconcile.Config[types.NamespacedName, rules.Group, rules.GroupAction]{
		Settings: g.Settings, Name: GroupControllerName, Task: g, Retries: g.retries, Bound: reconcile.APITimeout,
	})
}

// GroupIndexes are those that the controllers read groups and their members by, beside
// [Indexes].
func GroupIndexes() []kube.Index {
	return []kube.Index{
		{Kind: &snapshotv1.VolumeSnapshot{}, Field: indexGroup, Values: byGroup},
		{Kind: &corev1.PersistentVolume{}, Field: indexHandle, Values: byHandle},
		kube.IndexBy(indexGroupRef, func(c *groupv1.VolumeGroupSnapshotContent) []string {
			ref := c.Spec.VolumeGroupSnapshotRef
			return []string{types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}.String()}
		}),
	}
}

// AddTo registers the controller, its indexes and its event handlers with a manager. The cluster
// must serve the kinds of groups. The controller of VolumeSnapshots follows members from then on.
func (g *GroupController) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), GroupIndexes()...); err != nil {
		return err
	}

	// Returns when the cache has the groups: until then, members are left alone.
	if _, err := mgr.GetCache().GetInformer(ctx, &groupv1.VolumeGroupSnapshot{}); err != nil {
		return fmt.Errorf("cache of VolumeGroupSnapshots: %w", err)
	}
	g.FollowMembers()
	members := source.TypedKind(mgr.GetCache(), &groupv1.VolumeGroupSnapshot{}, g.membersOf())
	if err := g.watch(members); err != nil {
		return fmt.Errorf("controller %s: %w", ControllerName, err)
	}
	return reconcile.Register(mgr, reconcile.Registration[types.NamespacedName]{
		Name: GroupControllerName, Workers: g.Workers, Reconciler: g.Loop(),
		Sources: []source.TypedSource[types.NamespacedName]{
			source.TypedKind(mgr.GetCache(), &groupv1.VolumeGroupSnapshot{}, onAny(g, sawGroup)),
			source.TypedKind(mgr.GetCache(), &groupv1.VolumeGroupSnapshotContent{}, onAny(g, sawGroupContent)),
			source.TypedKind(mgr.GetCache(), &groupv1.VolumeGroupSnapshotClass{}, g.groupClassEvents()),
			source.TypedKind(mgr.GetCache(), &snapshotv1.VolumeSnapshot{}, g.memberEvents()),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, g.groupClaimEvents()),
		},
	})
}

// FollowMembers has the controller of VolumeSnapshots work on members of groups. The cache must have
// the groups.
func (g *GroupController) FollowMembers() { g.followsGroups.Store(true) }

// eventsOf are the handlers of the events of one kind, which enqueue groups or VolumeSnapshots.
type eventsOf[T client.Object] = handler.TypedEventHandler[T, types.NamespacedName]

func byGroup(o client.Object) []string {
	if vs, ok := o.(*snapshotv1.VolumeSnapshot); ok && rules.GroupOf(vs) != "" {
		return []string{rules.GroupOf(vs)}
	}
	return nil
}

func byHandle(o client.Object) []string {
	if pv, ok := o.(*corev1.PersistentVolume); ok && pv.Spec.CSI != nil {
		return []string{handleKey(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)}
	}
	return nil
}

func handleKey(driver, handle string) string { return driver + "^" + handle }

// Saw notes an object that came through a watch.
func (g *GroupController) Saw(o client.Object) {
	switch o := o.(type) {
	case *groupv1.VolumeGroupSnapshot:
		g.groups.Saw(o)
		g.measureGroup(o, false)
	case *groupv1.VolumeGroupSnapshotContent:
		g.groupContents.Saw(o)
	default:
		g.Controller.Saw(o)
	}
}

// Gone notes an object that a watch shows as deleted.
func (g *GroupController) Gone(o client.Object) {
	switch o := o.(type) {
	case *groupv1.VolumeGroupSnapshot:
		g.groups.Gone(o)
		g.measureGroup(o, true)
	case *groupv1.VolumeGroupSnapshotContent:
		g.groupContents.Gone(o)
	default:
		g.Controller.Gone(o)
	}
}

func sawGroup(_ context.Context, group *groupv1.VolumeGroupSnapshot, q queue) {
	q.Add(client.ObjectKeyFromObject(group))
}

func sawGroupContent(_ context.Context, content *groupv1.VolumeGroupSnapshotContent, q queue) {
	if ref := content.Spec.VolumeGroupSnapshotRef; ref.Name != "" {
		q.Add(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	}
}

// groupClassEvents enqueues the groups that may wait for a class: those without a content.
func (g *GroupController) groupClassEvents() eventsOf[*groupv1.VolumeGroupSnapshotClass] {
	return reconcile.OnChange(func(
		ctx context.Context, _ reconcile.Change[*groupv1.VolumeGroupSnapshotClass], q queue,
	) {
		g.enqueueWaiting(ctx, q)
	})
}

// groupClaimEvents enqueues the groups of the claim's namespace that may wait for it: to be bound,
// or for the end of its restore.
func (g *GroupController) groupClaimEvents() eventsOf[*corev1.PersistentVolumeClaim] {
	return reconcile.OnChange(func(ctx context.Context, e reconcile.Change[*corev1.PersistentVolumeClaim], q queue) {
		g.enqueueWaiting(ctx, q, client.InNamespace(e.Object().Namespace))
	})
}

func (g *GroupController) enqueueWaiting(ctx context.Context, q queue, options ...client.ListOption) {
	for _, one := range cachedItems[*groupv1.VolumeGroupSnapshot](
		ctx, g.Cached, &groupv1.VolumeGroupSnapshotList{}, options...,
	) {
		if one.DeletionTimestamp != nil || one.Status == nil || one.Status.BoundVolumeGroupSnapshotContentName == nil {
			q.Add(client.ObjectKeyFromObject(one))
		}
	}
}

// membersOf enqueues, for the controller of VolumeSnapshots, the members of a group that appears, is
// being deleted or is gone.
func (g *GroupController) membersOf() eventsOf[*groupv1.VolumeGroupSnapshot] {
	return reconcile.OnChange(func(ctx context.Context, e reconcile.Change[*groupv1.VolumeGroupSnapshot], q queue) {
		group := e.Object()
		if !e.IsCreated() && !e.IsDeleted() && group.DeletionTimestamp == nil {
			return
		}
		for _, member := range cachedItems[*snapshotv1.VolumeSnapshot](ctx, g.Cached, &snapshotv1.VolumeSnapshotList{},
			client.InNamespace(group.Namespace), client.MatchingFields{indexGroup: group.Name}) {
			q.Add(client.ObjectKeyFromObject(member))
		}
	})
}

// memberEvents enqueues the group of a member that was created or is gone.
func (g *GroupController) memberEvents() eventsOf[*snapshotv1.VolumeSnapshot] {
	return reconcile.OnChange(func(_ context.Context, e reconcile.Change[*snapshotv1.VolumeSnapshot], q queue) {
		if group := rules.GroupOf(e.Object()); group != "" && (e.IsCreated() || e.IsDeleted()) {
			q.Add(types.NamespacedName{Namespace: e.Object().Namespace, Name: group})
		}
	})
}

// groupState says how it stands with the group of a member. That it is gone must not follow from a
// stale cache.
func (c *Controller) groupState(ctx context.Context, vs *snapshotv1.VolumeSnapshot) (rules.GroupState, error) {
	name := rules.GroupOf(vs)
	if name == "" || !c.followsGroups.Load() {
		return rules.GroupUnread, nil
	}
	key := types.NamespacedName{Namespace: vs.Namespace, Name: name}
	group, err := kube.Get(ctx, c.Cached, key, &groupv1.VolumeGroupSnapshot{})
	if err == nil && group == nil && vs.DeletionTimestamp != nil {
		group, err = kube.Get(ctx, c.Live, key, &groupv1.VolumeGroupSnapshot{})
	}
	switch {
	case err != nil:
		return rules.GroupUnread, err
	case group == nil || group.DeletionTimestamp != nil:
		return rules.GroupEnding, nil
	}
	return rules.GroupAlive, nil
}
