package invariant

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/test/compat/record"
)

// world is the state of all objects after one change.
type world struct {
	claims  map[types.NamespacedName]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
	pods    map[types.NamespacedName]*corev1.Pod

	// When pods got their node, and when objects were marked as deleted: resource versions.
	scheduled, deleted map[types.UID]int64

	wishes map[types.UID]string // volumes that users named on a claim without one, by the claim
	// the volumes that users took away and the claim's controller may not know it, by the claim
	stolen map[types.UID]string
	robbed map[types.UID]string // the volumes that users took away and did not give back, by the claim that had them
	// volumes that users made or gave to another client, and no claim was bound to or missed since
	changed map[string]bool
	// volumes and claims that a controller bound or lost when one of these had just happened
	overtaken map[types.UID]bool
}

func newWorld() *world {
	return &world{
		claims: map[types.NamespacedName]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		pods: map[types.NamespacedName]*corev1.Pod{}, scheduled: map[types.UID]int64{}, deleted: map[types.UID]int64{},
		wishes: map[types.UID]string{}, overtaken: map[types.UID]bool{}, stolen: map[types.UID]string{},
		robbed: map[types.UID]string{}, changed: map[string]bool{},
	}
}

// apply applies one change to the world.
func (w *world) apply(c record.Change) {
	if c.Object.GetDeletionTimestamp() != nil {
		note(w.deleted, c)
	}
	if node, _, _ := unstructured.NestedString(c.Object.Object, "spec", "nodeName"); node != "" {
		note(w.scheduled, c)
	}
	switch key := keyOf(c); c.Kind {
	case record.Claims:
		put(w.claims, key, c, &corev1.PersistentVolumeClaim{})
	case record.Volumes:
		put(w.volumes, key.Name, c, &corev1.PersistentVolume{})
		if pv := w.volumes[key.Name]; pv != nil && w.robbed[ownerOf(pv)] == pv.Name {
			delete(w.robbed, ownerOf(pv))
		}
	case record.Pods:
		put(w.pods, key, c, &corev1.Pod{})
	}
}

// note records the first time.
func note(times map[types.UID]int64, c record.Change) {
	if uid := c.Object.GetUID(); times[uid] == 0 {
		times[uid] = c.At
	}
}

// marked reports whether a change that was just applied is the one that marked the object as deleted.
func (w *world) marked(c record.Change) bool { return w.deleted[c.Object.GetUID()] == c.At }

// wished records that a user has written a claim.
func (w *world) wished(before, now *corev1.PersistentVolumeClaim) {
	if before != nil && now != nil && before.Spec.VolumeName == "" && now.Spec.VolumeName != "" {
		w.wishes[now.UID] = now.Spec.VolumeName
	}
}

// given records that a controller has written a volume. A user may have named another volume in the
// claim just before, since no write covers two objects. Then the controller must release the volume
// again. That can happen once for each claim.
func (w *world) given(before, now *corev1.PersistentVolume) {
	claim := ownerOf(now)
	if claim == "" || claim == ownerOf(before) {
		return
	}
	wish := w.wishes[claim]
	if w.overtaken[now.UID] = wish != "" && wish != now.Name; w.overtaken[now.UID] {
		delete(w.wishes, claim)
	}
}

// lost records that a user has written or deleted a volume.
func (w *world) lost(before, now *corev1.PersistentVolume) {
	if before == nil || ownerOf(before) == "" || now != nil && ownerOf(now) == ownerOf(before) {
		return
	}
	w.stolen[ownerOf(before)], w.robbed[ownerOf(before)] = before.Name, before.Name
}

// regiven records that a user has changed the claim that a volume is reserved for.
func (w *world) regiven(before, now *corev1.PersistentVolume) {
	if now != nil && (before == nil || ownerOf(now) != ownerOf(before)) {
		w.changed[now.Name] = true
	}
}

// missed records that a controller has set a claim to Lost. The controller may have had a stale
// cache without the volume that was created again, and then binds the claim again. That is allowed
// once for each such write.
func (w *world) missed(claim *corev1.PersistentVolumeClaim) {
	if w.changed[claim.Spec.VolumeName] {
		delete(w.changed, claim.Spec.VolumeName)
		w.overtaken[claim.UID] = true
	}
}

// taken reports whether a user took the volume of a claim away, which the controller that set the
// claim to Bound may not have known. That is allowed once for each such write.
func (w *world) taken(claim *corev1.PersistentVolumeClaim) bool {
	volume, stolen := w.stolen[claim.UID]
	if stolen = stolen && volume == claim.Spec.VolumeName; stolen {
		delete(w.stolen, claim.UID)
		w.overtaken[claim.UID] = true
	}
	return stolen
}

// keeps reports whether a claim that is bound to a volume still has a right to it. If a user took
// the volume away, another claim may get it before the first one is set to Lost.
func (w *world) keeps(claim *corev1.PersistentVolumeClaim, volume string) bool {
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == volume && w.robbed[claim.UID] != volume
}

// ownerOf returns the uid of the claim that a volume is reserved for.
func ownerOf(pv *corev1.PersistentVolume) types.UID {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.UID
}

func keyOf(c record.Change) types.NamespacedName {
	return types.NamespacedName{Namespace: c.Object.GetNamespace(), Name: c.Object.GetName()}
}

func put[K comparable, T any](all map[K]*T, key K, c record.Change, into *T) {
	if c.Gone || runtime.DefaultUnstructuredConverter.FromUnstructured(c.Object.Object, into) != nil {
		delete(all, key)
		return
	}
	all[key] = into
}

// claimOf returns the claim with a uid.
func (w *world) claimOf(uid types.UID) *corev1.PersistentVolumeClaim {
	for _, c := range w.claims {
		if uid != "" && c.UID == uid {
			return c
		}
	}
	return nil
}

// user returns a scheduled pod that uses a claim.
func (w *world) user(claim *corev1.PersistentVolumeClaim) *corev1.Pod {
	for _, pod := range w.pods {
		if pod.Namespace != claim.Namespace || pod.Spec.NodeName == "" {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name {
				return pod
			}
		}
	}
	return nil
}
