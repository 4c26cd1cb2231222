package capacity

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
)

// namePrefix is the prefix of upstream's generated names (S-6).
const namePrefix = "csisc-"

// nameHash is the number of bytes of the key's hash that an object's name contains.
const nameHash = 10

// object returns a new object. Its name is made from the key, so that no second object can be
// created from a stale cache or by a second publisher (S-10).
func (s Snapshot) object(capacity, maximum *resource.Quantity) *storagev1.CSIStorageCapacity {
	object := &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Namespace: s.Rules.Namespace, Name: s.name()},
		StorageClassName: s.Key.Class,
		NodeTopology:     &metav1.LabelSelector{MatchLabels: s.Key.Segment.Labels()},
		Capacity:         capacity, MaximumVolumeSize: maximum,
	}
	s.Rules.mark(object)
	return object
}

func (s Snapshot) name() string {
	identity := strings.Join([]string{s.Rules.Driver, s.Rules.ManagedBy, s.Key.Class, string(s.Key.Segment)}, "\x00")
	sum := sha256.Sum256([]byte(identity))
	return namePrefix + hex.EncodeToString(sum[:nameHash])
}

// mark adds the publisher's labels and owner reference (S-6, S-8). An owner reference of another
// controller, such as the ReplicaSet of an older revision, is replaced: the API server allows only
// one controller.
func (r Rules) mark(object *storagev1.CSIStorageCapacity) {
	if object.Labels == nil {
		object.Labels = map[string]string{}
	}
	object.Labels[names.LabelCapacityDriver] = r.Driver
	object.Labels[names.LabelCapacityManagedBy] = r.ManagedBy
	isOwner := func(o metav1.OwnerReference) bool { return isSameOwner(o, *r.Owner) }
	if r.Owner == nil || slices.ContainsFunc(object.OwnerReferences, isOwner) {
		return
	}
	object.OwnerReferences = slices.DeleteFunc(slices.Clone(object.OwnerReferences),
		func(o metav1.OwnerReference) bool {
			return o.UID == r.Owner.UID || o.Controller != nil && *o.Controller
		})
	object.OwnerReferences = append(object.OwnerReferences, *r.Owner)
}

func isSameOwner(a, b metav1.OwnerReference) bool {
	isController := func(o metav1.OwnerReference) bool { return o.Controller != nil && *o.Controller }
	return a.UID == b.UID && a.Kind == b.Kind && a.Name == b.Name && isController(a) == isController(b)
}

// Values are the quantities in an object as comparable numbers.
type Values struct {
	Capacity, Maximum       int64
	HasCapacity, HasMaximum bool
}

// number returns a quantity in bytes, or -1, which no driver answers, for one that has no such number:
// an object with it is always written again.
func number(q resource.Quantity) int64 {
	bytes, problem := size.Bytes(q)
	if problem != nil {
		return -1
	}
	return bytes
}

// ValuesOf returns the quantities in an object.
func ValuesOf(object *storagev1.CSIStorageCapacity) Values {
	var v Values
	if object.Capacity != nil {
		v.Capacity, v.HasCapacity = number(*object.Capacity), true
	}
	if object.MaximumVolumeSize != nil {
		v.Maximum, v.HasMaximum = number(*object.MaximumVolumeSize), true
	}
	return v
}
