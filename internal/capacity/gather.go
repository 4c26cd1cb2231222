package capacity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
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
	IsPlanned  bool // the plan of [GatherPlan] has the key
	FailingFor time.Duration
	MaxAge     time.Duration
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
	var list storagev1.CSIStorageCapacityList
	if err := objects.List(
		ctx, &list, client.MatchingFields{IndexCapacityKey: key.String()}, client.MatchingLabels{
			names.LabelCapacityDriver: m.Rules.Driver, names.LabelCapacityManagedBy: m.Rules.ManagedBy,
		},
	); err != nil {
		return s, fmt.Errorf("list capacities of %s: %w", key, err)
	}
	s.Objects = Pointers(list.Items)
	return s, nil
}

// Read reads the objects that a decision asks for ([capacity.ReadObject]) from the API server. Those that do
// not exist any more are left out.
func Read(
	ctx context.Context, live client.Reader, s capacity.Snapshot, refs []verdict.Ref,
) (capacity.Snapshot, error) {
	gone := map[types.UID]bool{}
	for _, object := range s.Objects {
		if !slices.Contains(refs, capacity.ReadObject(object)) {
			continue
		}
		now, err := kube.GetSame(ctx, live, kube.KeyOf(object), &storagev1.CSIStorageCapacity{})
		if err != nil {
			return s, err
		}
		gone[object.UID] = now == nil
	}
	s.Objects = slices.DeleteFunc(slices.Clone(s.Objects), func(o *storagev1.CSIStorageCapacity) bool {
		return gone[o.UID]
	})
	s.UnseenFor = 0
	return s, nil
}

// PlanInputs are what a plan of capacities is computed from.
type PlanInputs struct {
	Classes  []*storagev1.StorageClass
	Nodes    []*corev1.Node
	CSINodes []*storagev1.CSINode
}

// GatherPlan gathers what decides which capacities should be published. Nodes are read if the segments are
// theirs.
func GatherPlan(ctx context.Context, from client.Reader, ofNodes bool) (PlanInputs, error) {
	var classes storagev1.StorageClassList
	var nodes corev1.NodeList
	var csiNodes storagev1.CSINodeList
	err := from.List(ctx, &classes, client.UnsafeDisableDeepCopy)
	if ofNodes {
		err = errors.Join(
			err, from.List(ctx, &nodes, client.UnsafeDisableDeepCopy),
			from.List(ctx, &csiNodes, client.UnsafeDisableDeepCopy),
		)
	}
	if err != nil {
		return PlanInputs{}, fmt.Errorf("list classes and nodes: %w", err)
	}
	return PlanInputs{Pointers(classes.Items), Pointers(nodes.Items), Pointers(csiNodes.Items)}, nil
}

// Pointers returns a pointer to each item of a list.
func Pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
