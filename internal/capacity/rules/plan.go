package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
)

// Key identifies one published capacity: that of a StorageClass in a segment.
type Key struct {
	Class   string
	Segment Segment
}

// String returns the key as text, for messages and for the cache index.
func (k Key) String() string { return k.Class + " in " + k.Segment.String() }

// KeyOf returns the key of an object. ok is false if the object has a selector that no provisioner
// writes.
func KeyOf(object *storagev1.CSIStorageCapacity) (key Key, ok bool) {
	segment, ok := ofSelector(object.NodeTopology)
	return Key{object.StorageClassName, segment}, ok
}

// Rules are the settings of a publisher.
type Rules struct {
	Driver    string
	Namespace string // of the objects
	ManagedBy string // label of the objects; see [names.CapacityManager]
	// Owner is the controller reference of the objects; nil for none.
	Owner *metav1.OwnerReference
	// Immediate also publishes the capacities of classes with immediate binding, although the
	// scheduler does not read them (F-19).
	Immediate bool
}

// publishes reports whether the capacities of a class are published (S-1).
func (r Rules) publishes(class *storagev1.StorageClass) bool {
	if class == nil || class.Provisioner != r.Driver {
		return false
	}
	mode := class.VolumeBindingMode
	return mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer || r.Immediate
}

// Owns reports whether an object was published by this publisher or by upstream's provisioner in
// its place.
func (r Rules) Owns(object *storagev1.CSIStorageCapacity) bool {
	return object.Labels[names.LabelCapacityDriver] == r.Driver &&
		object.Labels[names.LabelCapacityManagedBy] == r.ManagedBy
}

// Plan is the set of capacities that should be published.
type Plan struct {
	Keys     map[Key]bool
	classes  []string
	uids     map[string]types.UID // of the classes
	segments []Segment
	known    map[Segment]bool
}

// NewPlan returns a plan with each published class in each segment (S-1).
func NewPlan(classes []*storagev1.StorageClass, segments []Segment, rules Rules) *Plan {
	plan := &Plan{
		Keys: map[Key]bool{}, uids: map[string]types.UID{}, segments: segments,
		known: make(map[Segment]bool, len(segments)),
	}
	for _, segment := range segments {
		plan.known[segment] = true
	}
	for _, class := range classes {
		if !rules.publishes(class) {
			continue
		}
		plan.classes = append(plan.classes, class.Name)
		plan.uids[class.Name] = class.UID
		for _, segment := range segments {
			plan.Keys[Key{class.Name, segment}] = true
		}
	}
	slices.Sort(plan.classes)
	return plan
}

// Changes returns the new keys of after, sorted, and then the keys that only before has, sorted.
// The keys of a class that was deleted and created again count as new, since its parameters may
// differ (S-13). A nil plan is empty.
func Changes(before, after *Plan) []Key {
	keys := missing(before, after)
	for _, key := range missing(after, before) {
		if !after.has(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// missing returns the keys of other that p lacks, or that p has for a class with another uid.
func missing(p, other *Plan) []Key {
	if other == nil {
		return nil
	}
	var keys []Key
	for _, class := range other.classes {
		for _, segment := range other.segments {
			if key := (Key{class, segment}); !p.has(key) || p.uids[class] != other.uids[class] {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Segments returns the segments of the plan; nil for a nil plan.
func (p *Plan) Segments() []Segment {
	if p == nil {
		return nil
	}
	return p.segments
}

func (p *Plan) list() []string {
	if p == nil {
		return nil
	}
	return p.classes
}

func (p *Plan) has(key Key) bool { return p != nil && p.Keys[key] }

// Touched returns the keys whose capacity changes with a volume that is reachable from these
// segments. An empty list means a volume that is reachable from everywhere (S-15).
func (p *Plan) Touched(places []Segment) []Key {
	var keys []Key
	for _, segment := range p.touchedSegments(places) {
		for _, class := range p.list() {
			keys = append(keys, Key{class, segment})
		}
	}
	return keys
}

func (p *Plan) touchedSegments(places []Segment) []Segment {
	switch {
	case p == nil:
		return nil
	case len(places) == 0:
		return p.segments
	}
	var touched []Segment
	for _, place := range places {
		if p.known[place] {
			touched = append(touched, place)
			continue
		}
		for _, segment := range p.segments {
			if segment.overlaps(place) {
				touched = append(touched, segment)
			}
		}
	}
	slices.Sort(touched)
	return slices.Compact(touched)
}

// Leftovers returns the objects that per-node provisioners published for nodes that no longer exist
// (S-20). Such a provisioner labels its objects with its node, and does not run any more when the
// node is removed.
func Leftovers(
	objects []*storagev1.CSIStorageCapacity, nodes []*corev1.Node, rules Rules,
) []*storagev1.CSIStorageCapacity {
	managers := map[string]bool{rules.ManagedBy: true}
	for _, node := range nodes {
		managers[names.CapacityManager(node.Name)] = true
	}
	var left []*storagev1.CSIStorageCapacity
	for _, object := range objects {
		manager := object.Labels[names.LabelCapacityManagedBy]
		isOfNode := object.Labels[names.LabelCapacityDriver] == rules.Driver && names.IsNodeCapacityManager(manager)
		if isOfNode && !managers[manager] {
			left = append(left, object)
		}
	}
	return left
}
