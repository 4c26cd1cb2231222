package binder

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
)

// objectStore is the binder's state, under one lock: the objects that the watches delivered, indexed by
// their references, the own writes that no watch has delivered yet, and which volume is held for
// which claim. Its methods return the keys to enqueue.
//
// The same event handlers update the store and then enqueue keys, so a worker always finds the
// change for which its key was enqueued. A separate cache might not have the change yet, and no
// event would enqueue the key again.
type objectStore struct {
	mu      sync.Mutex
	volumes map[string]*corev1.PersistentVolume
	claims  map[types.NamespacedName]*corev1.PersistentVolumeClaim
	// volumes by the claim in spec.claimRef, which does not name them
	refs    multimap[types.NamespacedName, string]
	names   multimap[string, types.NamespacedName]       // claims by spec.volumeName, which does not name them
	classed map[string]map[types.NamespacedName]struct{} // claims without a volume, by class
	pods    map[types.NamespacedName]map[string]struct{} // names of pods, by the claim without a volume that they use
	uses    map[types.NamespacedName]podUse              // and what each of them uses
	classes map[string]*storagev1.StorageClass
	gone    tombstones

	ownVolumes *kube.OwnWrites[*corev1.PersistentVolume]
	ownClaims  *kube.OwnWrites[*corev1.PersistentVolumeClaim]

	index *binding.Index
	held  map[string]*hold               // by volume
	holds map[types.NamespacedName]*hold // by claim
}

// hold is a volume that is kept for a claim.
type hold struct {
	volume    string
	claim     types.NamespacedName
	seen      bool // by a worker, which uses it in this run or not at all
	unsure    bool // the write that takes it had no answer
	committed bool // it is written; the watch has not shown it yet
	version   string
}

// outlived reports whether the watch shows that the hold is not needed any more: the volume is
// taken, by us or by another client, or it was and is not any more, and the watch, which had been
// broken, left out what was between.
func (h *hold) outlived(now *corev1.PersistentVolume) bool {
	return now == nil || now.Spec.ClaimRef != nil || h.committed && !objects.IsNewer(h.version, now.ResourceVersion)
}

// idle reports whether the volume is kept and not taken.
func (h *hold) idle() bool { return h != nil && !h.committed }

func newObjectStore() *objectStore {
	return &objectStore{
		volumes: map[string]*corev1.PersistentVolume{},
		claims:  map[types.NamespacedName]*corev1.PersistentVolumeClaim{},
		refs:    multimap[types.NamespacedName, string]{}, names: multimap[string, types.NamespacedName]{},
		classed: map[string]map[types.NamespacedName]struct{}{}, classes: map[string]*storagev1.StorageClass{},
		pods: map[types.NamespacedName]map[string]struct{}{}, uses: map[types.NamespacedName]podUse{},
		gone:       newTombstones(),
		ownVolumes: kube.NewOwnWrites[*corev1.PersistentVolume](),
		ownClaims:  kube.NewOwnWrites[*corev1.PersistentVolumeClaim](),
		index:      binding.NewIndex(), held: map[string]*hold{}, holds: map[types.NamespacedName]*hold{},
	}
}

// volume is the newest that is known of a volume; nil when there is none, or a write is answered
// after the watch has shown its end. The caller holds mu.
func (l *objectStore) volume(name string) *corev1.PersistentVolume {
	newest, found, err := l.ownVolumes.Read(client.ObjectKey{Name: name},
		func() (*corev1.PersistentVolume, bool, error) {
			pv, ok := l.volumes[name]
			return pv, ok, nil
		})
	if err != nil || !found || l.gone.has(newest.UID) {
		return nil
	}
	return newest
}

// claim is the newest that is known of a claim, as with volume. The caller holds mu.
func (l *objectStore) claim(key types.NamespacedName) *corev1.PersistentVolumeClaim {
	newest, found, err := l.ownClaims.Read(key, func() (*corev1.PersistentVolumeClaim, bool, error) {
		claim, ok := l.claims[key]
		return claim, ok, nil
	})
	if err != nil || !found || l.isGone(key, newest.UID) {
		return nil
	}
	return newest
}

func (l *objectStore) newestVolume(name string) *corev1.PersistentVolume {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.volume(name)
}

func (l *objectStore) newestClaim(key types.NamespacedName) *corev1.PersistentVolumeClaim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claim(key)
}

// volumeSeen takes in what the watch shows of a volume: its state, which is the last one when now
// is nil.
func (l *objectStore) volumeSeen(name string, state, now *corev1.PersistentVolume) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.volumes[name]
	if now == nil {
		l.ownVolumes.Gone(state)
		l.gone.add(state.UID)
	} else {
		l.ownVolumes.Saw(state)
	}
	l.putVolume(name, now)
	keys := l.concerned(name, before, now)
	if h := l.held[name]; h != nil && h.outlived(now) {
		// the claim may be another one of that name, and has not looked for a volume
		keys = append(keys, l.lift(name)...)
	}
	return append(keys, l.offer(name)...)
}

// concerned returns the keys of the volume's previous and current owner and of the claims that name
// it.
func (l *objectStore) concerned(name string, before, now *corev1.PersistentVolume) []binding.Key {
	var keys []binding.Key
	for _, pv := range []*corev1.PersistentVolume{before, now} {
		if pv == nil || pv == now && l.spokenFor(pv) {
			continue
		}
		if key := binding.KeyOf(pv); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, claim := range l.names[name] {
		if key := (binding.Key{Claim: claim}); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// spokenFor reports whether a claim that names the volume is about to take it. The caller holds mu.
func (l *objectStore) spokenFor(pv *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(
		l.names[pv.Name], func(key types.NamespacedName) bool { return binding.TakesNamed(l.claims[key], pv) },
	)
}

// showsVolume reports whether the watch shows this volume, and not a previous one of its name.
func (l *objectStore) showsVolume(pv *corev1.PersistentVolume) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return isShown(l.volumes[pv.Name], pv.UID)
}

// showsClaim is the same for a claim.
func (l *objectStore) showsClaim(claim *corev1.PersistentVolumeClaim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return isShown(l.claims[keyOf(claim)], claim.UID)
}

func isShown[T any, O interface {
	*T
	client.Object
}](shown O, uid types.UID) bool {
	return shown != nil && shown.GetUID() == uid
}

// forgetUnwatched removes a volume that only a live read or an own write has returned and no watch has
// delivered. The next run of the keys that it returns reads the volume live again.
func (l *objectStore) forgetUnwatched(pv *corev1.PersistentVolume) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isShown(l.volumes[pv.Name], pv.UID) || !l.ownVolumes.Forget(pv) {
		return nil // the watch is back, and what is known is newer
	}
	return slices.Concat(l.lift(pv.Name), l.concerned(pv.Name, pv, nil), l.offer(pv.Name))
}

// doubtClaim is [objectStore.forgetUnwatched] for a claim.
func (l *objectStore) doubtClaim(claim *corev1.PersistentVolumeClaim) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := keyOf(claim)
	if isShown(l.claims[key], claim.UID) || !l.ownClaims.Forget(claim) {
		return nil
	}
	return []binding.Key{{Claim: key}}
}

// claimSeen takes in what the watch shows of a claim: its state, which is the last one when now is
// nil.
func (l *objectStore) claimSeen(key types.NamespacedName, state, now *corev1.PersistentVolumeClaim) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.claims[key]
	if now == nil {
		l.ownClaims.Gone(state)
		l.gone.add(state.UID)
	} else {
		l.ownClaims.Saw(state)
	}
	if before != nil && now != nil && now.UID != before.UID { // deleted and created again while the watch was broken
		l.gone.add(before.UID)
	}
	if before != nil && before.Spec.VolumeName == "" {
		l.unlist(key, before)
	}
	l.putClaim(key, now)
	switch {
	case now == nil:
	case now.Spec.VolumeName == "":
		l.list(key, now)
	default:
		l.served(key)
	}
	return append([]binding.Key{{Claim: key}}, l.noLongerTaken(before, now)...)
}

// noLongerTaken is the volume that a claim was about to take and is not any more: no phase was written
// to it available. The caller holds mu.
func (l *objectStore) noLongerTaken(before, now *corev1.PersistentVolumeClaim) []binding.Key {
	pv := l.volume(volumeNameOf(before))
	if pv == nil || !binding.TakesNamed(before, pv) || now != nil && binding.TakesNamed(now, pv) {
		return nil
	}
	return []binding.Key{binding.KeyOf(pv)}
}

func (l *objectStore) list(key types.NamespacedName, claim *corev1.PersistentVolumeClaim) {
	class := classOf(claim)
	if l.classed[class] == nil {
		l.classed[class] = map[types.NamespacedName]struct{}{}
	}
	l.classed[class][key] = struct{}{}
}

func (l *objectStore) unlist(key types.NamespacedName, claim *corev1.PersistentVolumeClaim) {
	class := classOf(claim)
	if delete(l.classed[class], key); len(l.classed[class]) == 0 {
		delete(l.classed, class)
	}
}

// noClass lists the claims that leave the class to the default. No class has such a name.
const noClass = "\x00"

func classOf(claim *corev1.PersistentVolumeClaim) string {
	if binding.AsksNoClass(claim) {
		return noClass
	}
	return objects.ClaimClass(claim)
}

// atRest reports whether the pair of a key needs nothing. The caller holds mu.
func (l *objectStore) atRest(key types.NamespacedName) bool {
	claim := l.claim(key)
	if claim == nil || claim.Spec.VolumeName == "" {
		return false
	}
	if slices.ContainsFunc(l.referring(key), func(volume string) bool { return volume != claim.Spec.VolumeName }) {
		return false
	}
	pv := l.volume(claim.Spec.VolumeName)
	return pv != nil && binding.AtRest(claim, pv)
}
