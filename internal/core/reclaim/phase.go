package reclaim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/objects"
)

// What happens to a volume of ours with the policy Delete. "claim" is what spec.claimRef says; a
// claimRef without a uid reserves the volume for any claim of the name, and one without a name or
// namespace is none (H-19). Upstream knows the second row only (D-4); the rest of what is marked *
// is never picked up there (D-34, D-35, H-19), or is deleted although an administrator has just
// taken the reference away to save the data.
//
//	phase      deleting  our finalizer  claim         what happens
//	Bound      any       yes            any           nothing; the PV controller releases it (D-30)
//	Released   any       yes            uid           reclaimed if the claim is proved to be gone (C5)
//	Released   no        no             uid           gets the finalizer, then as above (H-20)
//	Released   no        any            none, no uid  nothing *
//	Failed     any       any            uid           reclaimed if the claim is proved to be gone (D-35, U-8) *
//	Bound      no        no             any           gets the finalizer (C-81)
//	other      no        any            any           nothing: it may be waiting for a claim
//	not Bound  yes       yes            none          reclaimed: no claim can get it any more (D-34, U-10) *
//	not Bound  yes       yes            other         reclaimed if the claim is proved to be gone *
//	Released   yes       no             any           nothing: reclaimed before, or lost (D-33), which an event says
//	other      yes       no             any           nothing
//
// With any other policy our finalizer goes, in every phase (C-80).

// Proof is what is known of the claim that spec.claimRef names.
type Proof int

const (
	// NotAsked is not to know, which is as good as a claim that exists.
	NotAsked Proof = iota
	// ClaimExists says that the volume belongs to a claim, or may come to.
	ClaimExists
	// ClaimUnseen says the same of a claim that memory does not show: when it goes, no watch may
	// tell.
	ClaimUnseen
	// ClaimGone says that no claim can use the volume any more.
	ClaimGone
)

// MayReclaim reports whether the rest of the world can matter to what happens with the volume. For
// nearly every event it cannot.
func MayReclaim(pv *corev1.PersistentVolume) bool {
	dealtWith := pv.DeletionTimestamp != nil && !HasFinalizer(pv)
	return deletes(pv) && !dealtWith && pv.Status.Phase != corev1.VolumeBound
}

// freshFor is for how long after its release a volume is believed to be as it was seen.
const freshFor = 10 * time.Second

// IsFresh reports whether the volume was released just now. Later, an administrator may have
// changed it to retain the data, and a view that has not heard of that must not decide. An API
// server that does not say when, which are those before 1.29, cannot be relied on.
func IsFresh(pv *corev1.PersistentVolume, now time.Time) bool {
	since := pv.Status.LastPhaseTransitionTime
	return pv.Status.Phase == corev1.VolumeReleased && since != nil && now.Sub(since.Time).Abs() < freshFor
}

// Rests reports whether there is nothing to do, though something to be said if it [IsAbandoned],
// for a volume of ours whatever the rest of the world is like: it is in use or waits for a claim,
// or we have dealt with it. As good as all volumes rest.
func Rests(pv *corev1.PersistentVolume) bool {
	return deletes(pv) && !reclaimable(pv, ClaimGone) && !needsFinalizer(pv)
}

// IsRelease reports whether a change of a volume is its release, which is the proof that its claim
// is gone: the PV controller asked the API server before it wrote the phase. To be Released is
// none. An administrator may have given the volume to another claim since, or a binder may have,
// whose first write is that of the claimRef (I3).
func IsRelease(was, is *corev1.PersistentVolume) bool {
	return is.Status.Phase == corev1.VolumeReleased && was.Status.Phase != corev1.VolumeReleased && was.UID == is.UID &&
		hasOwner(is) && hasOwner(was) && is.Spec.ClaimRef.UID == was.Spec.ClaimRef.UID
}

// NeedsProof reports whether only a claim that is gone lets the volume be deleted. Where this
// process has not seen its release, the API server is to be asked (I3).
func NeedsProof(pv *corev1.PersistentVolume) bool {
	switch {
	case !MayReclaim(pv), !namesClaim(pv):
		return false
	case WasGivenUp(pv) && hasOwner(pv):
		return true
	}
	return pv.DeletionTimestamp != nil
}

// WasGivenUp reports whether some claim that had the volume is gone. Whether it is the one that has
// it now, the phase does not say.
func WasGivenUp(pv *corev1.PersistentVolume) bool {
	return objects.IsReleasedOrFailed(pv)
}

// ProofOf compares the volume with the claim that has the name in its claimRef, as the API server
// has it now; nil for none.
func ProofOf(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) Proof {
	switch {
	case claim == nil:
		return ClaimGone
	case hasOwner(pv) && claim.UID != pv.Spec.ClaimRef.UID: // another claim under the same name (C-94)
		return ClaimGone
	// which it keeps for as long as it lives
	case hasAnother(claim, pv) && (!hasOwner(pv) || pv.Status.Phase == corev1.VolumeReleased):
		return ClaimGone
	}
	return ClaimExists
}

func hasAnother(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	return claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name
}

// reclaimable is the rows of the table that lead to deletion.
func reclaimable(pv *corev1.PersistentVolume, claim Proof) bool {
	switch {
	case !MayReclaim(pv):
		return false
	case NeedsProof(pv):
		return claim == ClaimGone
	}
	return pv.DeletionTimestamp != nil && !namesClaim(pv)
}

// needsVolume reports whether the data under another PersistentVolume must stay (D-37). It need not
// when that one is deleted with it.
func needsVolume(twin Twin) bool {
	return !IsAbandoned(twin.Volume) && !reclaimable(twin.Volume, twin.Claim)
}

// IsAbandoned reports whether no controller waits for the volume to be deleted in the backend any
// more. Nearly always it is, and the one that dealt with it has taken the finalizer off; else it
// was never protected, and is left there (D-33, H-20).
func IsAbandoned(pv *corev1.PersistentVolume) bool {
	return deletes(pv) && pv.Status.Phase == corev1.VolumeReleased && pv.DeletionTimestamp != nil && !HasFinalizer(pv)
}

func deletes(pv *corev1.PersistentVolume) bool {
	return pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// namesClaim reports whether there can be a claim that the volume is for. Without a name or a
// namespace no claim can be read.
func namesClaim(pv *corev1.PersistentVolume) bool {
	return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Name != "" && pv.Spec.ClaimRef.Namespace != ""
}

func hasOwner(pv *corev1.PersistentVolume) bool { return namesClaim(pv) && pv.Spec.ClaimRef.UID != "" }

// ClassName is the StorageClass of the volume; the old annotation wins over the field (AN-6).
func ClassName(pv *corev1.PersistentVolume) string {
	return objects.VolumeClass(pv)
}
