package reclaim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/objects"
)

// What happens to a volume of ours with the policy Delete, by its phase, deletionTimestamp,
// finalizer and spec.claimRef. A claimRef without a uid reserves the volume for any claim of the
// name; one without a name or namespace counts as none (H-19). Upstream has only the second row
// (D-4). It never reclaims the other volumes marked * (D-34, D-35, H-19), or deletes one although
// an administrator has just removed the claimRef to save the data.
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
// A volume that this table reclaims stays as it is while an annotation purser/reuse keeps it (8.14).
// With any other policy our finalizer is removed, in every phase (C-80).

// Proof is the state of the claim that spec.claimRef names.
type Proof int

const (
	// NotRead means that the claim was not read. It counts as existing.
	NotRead Proof = iota
	// ClaimExists means that the volume belongs to a claim, or may be bound to one.
	ClaimExists
	// ClaimUncached means that the claim exists and the informer cache does not have it, so that no
	// event may show its deletion.
	ClaimUncached
	// ClaimGone means that no claim can use the volume any more.
	ClaimGone
)

// MayReclaim reports whether the decision depends on more than the volume itself. For nearly every
// event it does not.
func MayReclaim(pv *corev1.PersistentVolume) bool {
	dealtWith := pv.DeletionTimestamp != nil && !HasFinalizer(pv)
	return deletes(pv) && !dealtWith && pv.Status.Phase != corev1.VolumeBound
}

// freshFor is how long after the release the cached volume is trusted.
const freshFor = 10 * time.Second

// IsFresh reports whether the volume was released within [freshFor]. Later an administrator may
// have changed it to retain the data, and a stale cache must not decide. API servers before 1.29 do
// not report the time, so the volume is never fresh.
func IsFresh(pv *corev1.PersistentVolume, now time.Time) bool {
	since := pv.Status.LastPhaseTransitionTime
	return pv.Status.Phase == corev1.VolumeReleased && since != nil && now.Sub(since.Time).Abs() < freshFor
}

// HasNothingToDo reports whether the volume alone shows that no action can follow: it is in use,
// waits for a claim, or was reclaimed. Only an event may be due, if it [IsAbandoned]. True for
// nearly all volumes.
func HasNothingToDo(pv *corev1.PersistentVolume) bool {
	return deletes(pv) && !reclaimable(pv, ClaimGone) && !needsFinalizer(pv)
}

// IsRelease reports whether an update is the release of the volume, which proves that its claim is
// gone: the PV controller read the claim live before it wrote the phase. The phase Released alone
// proves nothing: an administrator, or a binder whose first write is the claimRef, may have given
// the volume to another claim since (I3).
func IsRelease(was, is *corev1.PersistentVolume) bool {
	return is.Status.Phase == corev1.VolumeReleased && was.Status.Phase != corev1.VolumeReleased && was.UID == is.UID &&
		hasOwner(is) && hasOwner(was) && is.Spec.ClaimRef.UID == was.Spec.ClaimRef.UID
}

// NeedsProof reports whether the volume is deleted only if its claim is gone. Unless this process
// observed its release, the claim must be read live (I3).
func NeedsProof(pv *corev1.PersistentVolume) bool {
	switch {
	case !MayReclaim(pv), !namesClaim(pv):
		return false
	case HadClaim(pv) && hasOwner(pv):
		return true
	}
	return pv.DeletionTimestamp != nil
}

// HadClaim reports whether the phase says that a claim of the volume is gone. It may not be the
// claim in the present claimRef.
func HadClaim(pv *corev1.PersistentVolume) bool {
	return objects.IsReleasedOrFailed(pv)
}

// ProofOf compares the volume with the live claim that its claimRef names; nil for none.
func ProofOf(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) Proof {
	switch {
	case claim == nil:
		return ClaimGone
	case hasOwner(pv) && claim.UID != pv.Spec.ClaimRef.UID: // another claim under the same name (C-94)
		return ClaimGone
	// the claim keeps its volume for as long as it exists
	case hasAnother(claim, pv) && (!hasOwner(pv) || pv.Status.Phase == corev1.VolumeReleased):
		return ClaimGone
	}
	return ClaimExists
}

// IsClaimUncached reports whether the cache lacks the claim of a PersistentVolume that the API
// server has: it has none of the name, or one with another uid.
func IsClaimUncached(ref *corev1.ObjectReference, cached *corev1.PersistentVolumeClaim) bool {
	return cached == nil || ref.UID != "" && cached.UID != ref.UID
}

func hasAnother(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	return claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name
}

// reclaimable reports whether a row of the table says that the volume is reclaimed.
func reclaimable(pv *corev1.PersistentVolume, claim Proof) bool {
	switch {
	case !MayReclaim(pv):
		return false
	case NeedsProof(pv):
		return claim == ClaimGone
	}
	return pv.DeletionTimestamp != nil && !namesClaim(pv)
}

// needsVolume reports whether another PersistentVolume needs the same data (D-37). One that is
// reclaimed itself does not.
func (s Snapshot) needsVolume(other *corev1.PersistentVolume) bool {
	if IsAbandoned(other) {
		return false
	}
	return !reclaimable(other, s.proofOf(other)) || isKeptForReuse(other)
}

// IsAbandoned reports whether no controller will delete the volume in the backend any more. Nearly
// always it is deleted already, and its controller removed the finalizer. Otherwise it never had
// the finalizer, and the volume is leaked (D-33, H-20).
func IsAbandoned(pv *corev1.PersistentVolume) bool {
	return deletes(pv) && pv.Status.Phase == corev1.VolumeReleased && pv.DeletionTimestamp != nil && !HasFinalizer(pv)
}

func deletes(pv *corev1.PersistentVolume) bool {
	return pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// namesClaim reports whether the claimRef can name a claim. Without a name or namespace no claim
// can be read.
func namesClaim(pv *corev1.PersistentVolume) bool {
	return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Name != "" && pv.Spec.ClaimRef.Namespace != ""
}

func hasOwner(pv *corev1.PersistentVolume) bool { return namesClaim(pv) && pv.Spec.ClaimRef.UID != "" }
