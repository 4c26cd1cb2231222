package binding

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// bind makes a pair of the two, or finishes what was begun: of the four writes those that are
// missing, in their order (1.10).
func bind(
	claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, unused *corev1.PersistentVolumeClaimCondition,
) Verdict {
	status, write, err := boundStatus(claim, pv)
	if err != nil {
		return refuse{Finding: finding{Reason: verdict.VolumeWithoutCapacity, Message: err.Error()}}
	}
	var actions []Action
	if ref := pv.Spec.ClaimRef; ref == nil || !refersTo(ref, claim) {
		actions = append(
			actions, ClaimVolume{Volume: pv, Claim: claim, Mark: ref == nil && !boundByController(pv.Annotations)},
		)
	}
	complete := Complete{Name: pv.Name, Owner: claim.UID}
	if pv.Status.Phase != corev1.VolumeBound {
		complete.Volume = pv
	}
	if chosen := claim.Spec.VolumeName != pv.Name; chosen || !completed(claim) {
		complete.Claim, complete.Mark = claim, chosen && !boundByController(claim.Annotations)
	}
	if complete.Volume != nil || complete.Claim != nil {
		actions = append(actions, complete)
	}
	if getsCondition(claim) {
		status.Unused = unused
	}
	if write {
		actions = append(actions, SetClaimStatus{claim, pv.Name, status})
	}
	then := idle(verdict.ClaimBound, "the claim is bound to "+pv.Name)
	if len(actions) == 0 {
		return then
	}
	return do{
		Finding: finding{Reason: verdict.ClaimBinding, Message: "binding the claim to " + pv.Name},
		Actions: actions,
		Then:    then,
	}
}

func refersTo(ref *corev1.ObjectReference, claim *corev1.PersistentVolumeClaim) bool {
	return ref.Namespace == claim.Namespace && ref.Name == claim.Name && ref.UID == claim.UID
}

// getsCondition reports whether the claim gets the condition Unused together with the phase Bound,
// which saves the write of the protection controller. That controller adds it to a claim that has
// conditions, and to one that was Lost, whose other conditions a cache may not have (3.1).
func getsCondition(claim *corev1.PersistentVolumeClaim) bool {
	isNew := claim.Status.Phase == corev1.ClaimPending || claim.Status.Phase == ""
	return isNew && len(claim.Status.Conditions) == 0 && claim.DeletionTimestamp == nil
}

// boundStatus is what the claim's status is to say, and whether that is a change. The capacity is
// set when the claim becomes bound and never again, for afterwards it may differ on purpose; the
// attributes class belongs to the resizer from then on.
func boundStatus(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) (ClaimStatus, bool, error) {
	status := ClaimStatus{Phase: corev1.ClaimBound, AccessModes: pv.Spec.AccessModes}
	have := claim.Status
	if have.Phase == corev1.ClaimBound {
		return status, !slices.Equal(have.AccessModes, pv.Spec.AccessModes), nil
	}
	if _, ok := pv.Spec.Capacity[corev1.ResourceStorage]; !ok {
		return status, false, fmt.Errorf("PersistentVolume %q is without a storage capacity", pv.Name)
	}
	status.Capacity = boundCapacity(pv)
	if have.Phase == corev1.ClaimPending {
		status.Attributes = pv.Spec.VolumeAttributesClassName
	}
	return status, true, nil
}

// boundCapacity is that of the volume, or the one that its filesystem still has while a resize is
// pending.
func boundCapacity(pv *corev1.PersistentVolume) corev1.ResourceList {
	if before, ok := pv.Annotations[names.AnnPreResizeCapacity]; ok {
		if quantity, err := size.Parse(before); err == nil {
			return corev1.ResourceList{corev1.ResourceStorage: quantity}
		}
	}
	return pv.Spec.Capacity
}

// AtRest reports whether the two are bound to each other and there is nothing left to write, as
// with nearly all.
func AtRest(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID != claim.UID || claim.Spec.VolumeName != pv.Name || !completed(claim) {
		return false
	}
	if pv.Status.Phase != corev1.VolumeBound || claim.Status.Phase != corev1.ClaimBound ||
		!slices.Equal(claim.Status.AccessModes, pv.Spec.AccessModes) {
		return false
	}
	_, claimWrong := claimMigration(claim)
	_, _, volumeWrong := volumeMigration(pv)
	_, unread := objects.Reuse(pv) // an event is due
	return !claimWrong && !volumeWrong && unread == nil && objects.ReuseOnClaim(claim) == nil
}
