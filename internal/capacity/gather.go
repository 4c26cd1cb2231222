package capacity

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/kube"
)

// IndexCapacityKey finds CSIStorageCapacity objects by their class and segment, so that no list is
// searched (S-17).
const IndexCapacityKey = "capacityKey"

// Indexes are the indexes of [Gather], for the reader of the objects.
func Indexes() []kube.Index {
	return []kube.Index{kube.IndexBy(IndexCapacityKey, func(o *storagev1.CSIStorageCapacity) []string {
		key, _ := capacity.KeyOf(o)
		return []string{key.String()}
	})}
}

// Memory is the state of this process about one key, beyond the API objects.
type Memory struct {
	Rules      capacity.Rules
	IsPlanned  bool // [GatherPlan] has the key
	FailingFor time.Duration
	MaxAge     time.Duration
	// Unseen are this process's objects that the cache may not show yet; nil for none.
	Unseen func(func(*storagev1.CSIStorageCapacity) bool) []*storagev1.CSIStorageCapacity
}

// Gather gathers the inputs of the decision about the published capacity of one class in one
// segment. The objects have a cache of their own.
func Gather(
	ctx context.Context, from, objects client.Reader, key capacity.Key, m Memory,
) (capacity.Snapshot, error) {
	s := capacity.Snapshot{
		Key: key, IsPlanned: m.IsPlanned, Rules: m.Rules, FailingFor: m.FailingFor, MaxAge: m.MaxAge,
	}
	var err error
	if s.Class, err = kube.Get(ctx, from, client.ObjectKey{Name: key.Class}, &storagev1.StorageClass{}); err != nil {
		return s, err
	}
	s.Objects, err = capacities(ctx, objects, key, m)
	return s, err
}

// capacities returns the objects of this publisher with a key. A write of this process that the cache
// has not seen yet takes the place of the cached object (S-10).
func capacities(
	ctx context.Context, from client.Reader, key capacity.Key, m Memory,
) ([]*storagev1.CSIStorageCapacity, error) {
	var unseen []*storagev1.CSIStorageCapacity
	if m.Unseen != nil { // read before the cache, which may see a write in between
		unseen = m.Unseen(func(o *storagev1.CSIStorageCapacity) bool {
			has, ok := capacity.KeyOf(o)
			return ok && has == key
		})
	}
	var list storagev1.CSIStorageCapacityList
	if err := from.List(ctx, &list, client.MatchingFields{IndexCapacityKey: key.String()}); err != nil {
		return nil, fmt.Errorf("list capacities of %s: %w", key, err)
	}
	byName := map[string]*storagev1.CSIStorageCapacity{}
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	for _, own := range unseen {
		byName[own.Name] = own
	}
	var objects []*storagev1.CSIStorageCapacity
	for _, object := range byName {
		if m.Rules.Owns(object) {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// PlanInputs are what a plan of capacities is computed from.
type PlanInputs struct {
	Classes  []*storagev1.StorageClass
	Segments []capacity.Segment
	// Nodes has the names of all nodes; nil if nodes are not read.
	Nodes []string
	// Unregistered has the labels of the nodes without the driver.
	Unregistered []map[string]string
}

// GatherPlan gathers which capacities should be published. segments are those of a driver without
// topology or of one node; nil takes the segments of all nodes (S-2, S-5).
func GatherPlan(
	ctx context.Context, from client.Reader, rules capacity.Rules, segments []capacity.Segment,
) (PlanInputs, error) {
	in := PlanInputs{Segments: segments}
	var classes storagev1.StorageClassList
	if err := from.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list classes: %w", err)
	}
	in.Classes = Pointers(classes.Items)
	if segments != nil {
		return in, nil
	}
	var all corev1.NodeList
	var csiNodes storagev1.CSINodeList
	err := errors.Join(
		from.List(ctx, &all, client.UnsafeDisableDeepCopy), from.List(ctx, &csiNodes, client.UnsafeDisableDeepCopy),
	)
	if err != nil {
		return in, fmt.Errorf("list nodes: %w", err)
	}
	nodes, registrations := Pointers(all.Items), Pointers(csiNodes.Items)
	in.Segments = capacity.Segments(nodes, registrations, rules.Driver)
	in.Unregistered = capacity.Unregistered(nodes, registrations, rules.Driver)
	in.Nodes = []string{}
	for _, node := range nodes {
		in.Nodes = append(in.Nodes, node.Name)
	}
	return in, nil
}

// Pointers returns a pointer to each item of a list.
func Pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
