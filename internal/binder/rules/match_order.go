package binding

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/size"
)

// Index has the volumes that are there for any claim, and the claims that wait for such a volume.
// Both are kept by what must be equal on both sides (class, volume mode, attributes class) and by
// set of access modes, and in each set in the order of their size, so that either side finds the
// best of the other in O(log n). Label selectors and labels are compared in that order, one after
// the other.
//
// It is not safe for concurrent use.
type Index struct {
	modes   []corev1.PersistentVolumeAccessMode // the bit of each
	shelves map[shelfKey]*shelf
	volumes map[string]volumePlace
	claims  map[types.NamespacedName]claimPlace
}

// shelfKey is what a volume and a claim must have in common.
type shelfKey struct {
	class, attributes string
	block             bool
}

func shelfOfVolume(pv *corev1.PersistentVolume) shelfKey {
	return shelfKey{objects.VolumeClass(pv), deref(pv.Spec.VolumeAttributesClassName), isBlock(pv.Spec.VolumeMode)}
}

func shelfOfClaim(claim *corev1.PersistentVolumeClaim) shelfKey {
	return shelfKey{
		objects.ClaimClass(claim), deref(claim.Spec.VolumeAttributesClassName), isBlock(claim.Spec.VolumeMode),
	}
}

// shelf is ordered: by how many modes a set has, then by the set.
type shelf struct{ sets []*modeSet }

// modeSet has what has, or asks for, exactly these modes.
type modeSet struct {
	modes   uint64
	volumes *btree.BTree[volume]
	claims  *btree.BTree[waiter]
}

type volumePlace struct {
	shelf shelfKey
	modes uint64
	item  volume
}

type claimPlace struct {
	shelf shelfKey
	modes uint64
	item  waiter
}

// volume is one for the order of volumes: the smallest first, then the oldest, then by name.
type volume struct {
	size    size.Exact
	created int64
	name    string
	labels  map[string]string
}

func volumeOf(pv *corev1.PersistentVolume) volume {
	return volume{
		size: sizeOf(pv.Spec.Capacity), created: pv.CreationTimestamp.Unix(), name: pv.Name, labels: pv.Labels,
	}
}

func (v volume) before(w volume) bool {
	return cmp.Or(v.size.Compare(w.size), cmp.Compare(v.created, w.created), cmp.Compare(v.name, w.name)) < 0
}

// waiter is a claim for the order of claims: the smallest first, then the youngest, then by name
// from the end. It is read backwards.
type waiter struct {
	size     size.Exact
	created  int64
	key      types.NamespacedName
	selector labels.Selector // nil: any
}

func (w waiter) before(v waiter) bool {
	return cmp.Or(w.size.Compare(v.size), cmp.Compare(v.created, w.created),
		cmp.Compare(v.key.Namespace, w.key.Namespace), cmp.Compare(v.key.Name, w.key.Name)) < 0
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{
		shelves: map[shelfKey]*shelf{},
		volumes: map[string]volumePlace{},
		claims:  map[types.NamespacedName]claimPlace{},
	}
}

// degree of the trees; it matters little.
const degree = 16

// Offer puts a volume where claims find it. The caller has asked [Matchable].
func (x *Index) Offer(pv *corev1.PersistentVolume) {
	place := volumePlace{shelfOfVolume(pv), x.bitsOf(pv.Spec.AccessModes), volumeOf(pv)}
	x.Withdraw(pv.Name)
	x.volumes[pv.Name] = place
	x.set(place.shelf, place.modes).volumes.ReplaceOrInsert(place.item)
}

// Withdraw takes a volume away, if it is there.
func (x *Index) Withdraw(name string) {
	if place, ok := x.volumes[name]; ok {
		delete(x.volumes, name)
		x.set(place.shelf, place.modes).volumes.Delete(place.item)
		x.tidy(place.shelf)
	}
}

// Await puts a claim where volumes find it.
func (x *Index) Await(claim *corev1.PersistentVolumeClaim) {
	key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	x.Forget(key)
	selector, ok := selectorOf(claim)
	if !ok {
		return
	}
	place := claimPlace{shelfOfClaim(claim), x.bitsOf(claim.Spec.AccessModes), waiter{
		size: sizeOf(claim.Spec.Resources.Requests), created: claim.CreationTimestamp.Unix(), key: key,
		selector: selector,
	}}
	x.claims[key] = place
	x.set(place.shelf, place.modes).claims.ReplaceOrInsert(place.item)
}

// Forget takes a claim away, if it is there.
func (x *Index) Forget(key types.NamespacedName) {
	if place, ok := x.claims[key]; ok {
		delete(x.claims, key)
		x.set(place.shelf, place.modes).claims.Delete(place.item)
		x.tidy(place.shelf)
	}
}

// Waiting is how many claims wait.
func (x *Index) Waiting() int { return len(x.claims) }

// selectorOf is nil for a claim that takes any labels; ok is false for a selector that selects
// nothing, since it is none.
func selectorOf(claim *corev1.PersistentVolumeClaim) (selector labels.Selector, ok bool) {
	if claim.Spec.Selector == nil {
		return nil, true
	}
	selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
	return selector, err == nil
}

// BestVolume is the volume for a claim (1.9): of those with the fewest access modes that have all
// that are asked for the smallest that is large enough, then the oldest, then by name; "" when
// there is none.
func (x *Index) BestVolume(claim *corev1.PersistentVolumeClaim) string {
	on := x.shelves[shelfOfClaim(claim)]
	selector, ok := selectorOf(claim)
	if on == nil || !ok {
		return ""
	}
	want, least := x.bitsOf(claim.Spec.AccessModes), sizeOf(claim.Spec.Resources.Requests)
	best, count := (*volume)(nil), 0
	for _, set := range on.sets {
		if set.modes&want != want {
			continue
		}
		if best != nil && bits.OnesCount64(set.modes) > count {
			break
		}
		if v, ok := set.smallest(least, selector); ok && (best == nil || v.before(*best)) {
			best, count = &v, bits.OnesCount64(set.modes)
		}
	}
	if best == nil {
		return ""
	}
	return best.name
}

func (s *modeSet) smallest(least size.Exact, selector labels.Selector) (found volume, ok bool) {
	s.volumes.AscendGreaterOrEqual(volume{size: least, created: math.MinInt64}, func(v volume) bool {
		ok = selector == nil || selector.Matches(labels.Set(v.labels))
		found = v
		return !ok
	})
	return found, ok
}

// BestClaim is the claim for a volume, the other way round: of those that it fits the one that
// leaves the least of it unused, then the oldest, then by name.
func (x *Index) BestClaim(pv *corev1.PersistentVolume) (types.NamespacedName, bool) {
	on := x.shelves[shelfOfVolume(pv)]
	if on == nil {
		return types.NamespacedName{}, false
	}
	have := x.bitsOf(pv.Spec.AccessModes)
	var best *waiter
	for _, set := range on.sets {
		if set.modes&have != set.modes {
			continue
		}
		if w, ok := set.largest(sizeOf(pv.Spec.Capacity), pv.Labels); ok && (best == nil || best.before(w)) {
			best = &w
		}
	}
	if best == nil {
		return types.NamespacedName{}, false
	}
	return best.key, true
}

func (s *modeSet) largest(most size.Exact, have map[string]string) (found waiter, ok bool) {
	s.claims.DescendLessOrEqual(waiter{size: most, created: math.MinInt64}, func(w waiter) bool {
		ok = w.selector == nil || w.selector.Matches(labels.Set(have))
		found = w
		return !ok
	})
	return found, ok
}

// bitsOf gives each mode a bit. There are four modes; one too many would share the last bit, and be
// asked for in vain.
func (x *Index) bitsOf(modes []corev1.PersistentVolumeAccessMode) uint64 {
	var set uint64
	for _, mode := range modes {
		i := slices.Index(x.modes, mode)
		if i < 0 {
			i = len(x.modes)
			x.modes = append(x.modes, mode)
		}
		set |= 1 << min(i, 63)
	}
	return set
}

func (x *Index) set(key shelfKey, modes uint64) *modeSet {
	on := x.shelves[key]
	if on == nil {
		on = &shelf{}
		x.shelves[key] = on
	}
	at, ok := slices.BinarySearchFunc(on.sets, modes, func(s *modeSet, modes uint64) int {
		return cmp.Or(cmp.Compare(bits.OnesCount64(s.modes), bits.OnesCount64(modes)), cmp.Compare(s.modes, modes))
	})
	if !ok {
		on.sets = slices.Insert(
			on.sets,
			at,
			&modeSet{modes: modes, volumes: btree.New(degree, volume.before), claims: btree.New(degree, waiter.before)},
		)
	}
	return on.sets[at]
}

// tidy forgets what is empty: classes come and go.
func (x *Index) tidy(key shelfKey) {
	on := x.shelves[key]
	on.sets = slices.DeleteFunc(on.sets, func(s *modeSet) bool { return s.volumes.Len() == 0 && s.claims.Len() == 0 })
	if len(on.sets) == 0 {
		delete(x.shelves, key)
	}
}
