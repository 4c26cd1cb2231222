package capacity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// planKey is the only key of the controller that computes the plan.
type planKey struct{}

// planDelay is the time from a change of a node or class to the new plan. Changes in between are
// covered by the same run (S-3).
const planDelay = 500 * time.Millisecond

func (c *Controller) addPlan(mgr manager.Manager) error {
	sources := []source.TypedSource[planKey]{
		source.TypedFunc[planKey](func(_ context.Context, q reconcile.Queue[planKey]) error {
			q.Add(planKey{}) // a cluster without classes and nodes has no event that would do it
			return nil
		}),
		source.TypedKind(mgr.GetCache(), &storagev1.StorageClass{}, onPlanChange(isClassChange)),
	}
	if c.Segments == nil {
		sources = append(sources,
			source.TypedKind(mgr.GetCache(), &corev1.Node{}, onPlanChange(isNodeChange)),
			source.TypedKind(mgr.GetCache(), &storagev1.CSINode{}, onPlanChange(c.isCSINodeChange)))
	}
	return reconcile.Register(mgr, reconcile.Registration[planKey]{
		Name: PlanName, Workers: 1, Reconciler: ctrlreconcile.TypedFunc[planKey](c.replan), Sources: sources,
	})
}

// onPlanChange enqueues the plan after a creation, a deletion, or an update that matters.
func onPlanChange[T client.Object](matters func(reconcile.Change[T]) bool) handler.TypedEventHandler[T, planKey] {
	return reconcile.OnChange(func(_ context.Context, change reconcile.Change[T], q reconcile.Queue[planKey]) {
		if change.IsCreated() || change.IsDeleted() || matters(change) {
			q.AddAfter(planKey{}, planDelay)
		}
	})
}

// isClassChange returns false: the fields of a class that matter are immutable. A class that is
// deleted and created again has another uid.
func isClassChange(reconcile.Change[*storagev1.StorageClass]) bool { return false }

func isNodeChange(change reconcile.Change[*corev1.Node]) bool {
	return !maps.Equal(change.Old.Labels, change.New.Labels)
}

func (c *Controller) isCSINodeChange(change reconcile.Change[*storagev1.CSINode]) bool {
	return !slices.Equal(c.topologyKeys(change.Old), c.topologyKeys(change.New))
}

// topologyKeys returns the driver's topology keys on a node after an empty string, or nil if the
// driver is not registered there.
func (c *Controller) topologyKeys(csiNode *storagev1.CSINode) []string {
	for i := range csiNode.Spec.Drivers {
		if csiNode.Spec.Drivers[i].Name == c.Rules.Driver {
			return append([]string{""}, csiNode.Spec.Drivers[i].TopologyKeys...)
		}
	}
	return nil
}

// replan computes which capacities should be published, and enqueues the keys that are new or gone.
// The first plan enqueues all its keys and the keys of all existing objects (S-19).
func (c *Controller) replan(ctx context.Context, _ planKey) (ctrlreconcile.Result, error) {
	if !c.Objects.WaitForCacheSync(ctx) {
		return ctrlreconcile.Result{}, ctx.Err()
	}
	before := c.plan.Load()
	in, err := GatherPlan(ctx, c.Cached, c.Segments == nil)
	if err != nil {
		return ctrlreconcile.Result{}, err
	}
	var result ctrlreconcile.Result
	segments := c.Segments
	if segments == nil {
		if segments, result.RequeueAfter, err = c.linger(ctx, in); err != nil {
			return ctrlreconcile.Result{}, err
		}
	}
	after := capacity.NewPlan(in.Classes, segments, c.Rules)
	c.plan.Store(after)
	changes := capacity.Changes(before, after)
	for _, key := range changes {
		if after.Keys[key] {
			c.answers.planned(key)
		} else {
			c.answers.forget(key)
		}
	}
	c.enqueue(priorityNew, changes...)
	if len(changes) > 0 {
		logr.FromContextOrDiscard(ctx).Info(
			"published capacities change", "capacities", len(after.Keys), "changes", len(changes),
		)
	}
	return result, c.sweep(ctx, in)
}

// linger returns the segments of the nodes with those that stay for the grace period, and when the
// first of them ends. Published are those of objects too: a new leader has no plan before.
func (c *Controller) linger(ctx context.Context, in PlanInputs) ([]capacity.Segment, time.Duration, error) {
	var list storagev1.CSIStorageCapacityList
	if err := c.objects.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, 0, fmt.Errorf("list capacities: %w", err)
	}
	published := slices.Clone(c.plan.Load().Segments())
	for i := range list.Items {
		if key, ok := capacity.KeyOf(&list.Items[i]); ok && c.Rules.Owns(&list.Items[i]) {
			published = append(published, key.Segment)
		}
	}
	slices.Sort(published)
	now := c.Clock.Now()
	found := capacity.Segments(in.Nodes, in.CSINodes, c.Rules.Driver)
	without := capacity.Unregistered(in.Nodes, in.CSINodes, c.Rules.Driver)
	stay, next := c.missing.Linger(slices.Compact(published), found, without, now)
	c.missing = stay
	segments := slices.Concat(found, stay.At(now))
	slices.Sort(segments)
	if next.IsZero() {
		return segments, 0, nil
	}
	return segments, next.Sub(now), nil
}

// sweep enqueues the keys of objects that are not planned. It deletes objects with a selector that
// no provisioner writes, and the objects of per-node provisioners whose node no longer exists
// (S-20).
func (c *Controller) sweep(ctx context.Context, in PlanInputs) error {
	var list storagev1.CSIStorageCapacityList
	if err := c.objects.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list capacities: %w", err)
	}
	objects, plan := Pointers(list.Items), c.plan.Load()
	var leftovers []*storagev1.CSIStorageCapacity
	for _, object := range objects {
		key, ok := capacity.KeyOf(object)
		switch {
		case !c.Rules.Owns(object) || plan.Keys[key] && ok:
		case !ok:
			leftovers = append(leftovers, object)
		default:
			c.enqueue(priorityNew, key)
		}
	}
	if c.Segments == nil { // else the nodes are not read
		leftovers = append(leftovers, capacity.Leftovers(objects, in.Nodes, c.Rules)...)
	}
	var errs []error
	for _, object := range leftovers {
		logr.FromContextOrDiscard(ctx).Info(
			"deleting a CSIStorageCapacity that no provisioner publishes any more", "object",
			client.ObjectKeyFromObject(object),
		)
		errs = append(errs, c.remove(ctx, object.DeepCopy()))
	}
	return errors.Join(errs...)
}

// State returns the values of the metrics.
func (c *Controller) State() telemetry.CapacityState {
	plan := c.plan.Load()
	var list storagev1.CSIStorageCapacityList
	if plan == nil || c.objects.List(context.Background(), &list, client.UnsafeDisableDeepCopy) != nil {
		return telemetry.CapacityState{}
	}
	state := telemetry.CapacityState{Goal: len(plan.Keys)}
	for i := range list.Items {
		key, ok := capacity.KeyOf(&list.Items[i])
		switch {
		case !c.Rules.Owns(&list.Items[i]):
		case ok && plan.Keys[key]:
			state.Current++
		default:
			state.Obsolete++
		}
	}
	state.Oldest, state.Failing = c.answers.ages(plan)
	return state
}
