package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
)

// ClaimFields are what binding, protection, expansion and the metrics read of a claim. A claim stays
// whole while it has no volume, since the volume is made from it, and while it is being deleted,
// expanded or modified. The binder reads of a waiting claim also whether it has conditions.
var ClaimFields = whole(isInWork, Reads(keepClaim,
	names.AnnBindCompleted,
	names.AnnBoundByController,
	names.AnnStorageProvisioner,
	names.AnnBetaStorageProvisioner,
	names.AnnSelectedNode,
	names.AnnBetaStorageClass,
	names.AnnMigratedTo,
	names.AnnStorageResizer,
	names.AnnReuse, // an event says that it has no effect there
))

// PairFields are the fields that each controller in the role controllers reads of claims and
// volumes.
var PairFields = []*Fields{ClaimFields, VolumeFields}

// isInWork reports whether the claim is not bound yet, or is being deleted, expanded or modified, or
// should be expanded or modified. A resizer in the same process writes the claim's status.
func isInWork(claim *corev1.PersistentVolumeClaim) bool {
	isBound := claim.Status.Phase == corev1.ClaimBound || claim.Status.Phase == corev1.ClaimLost
	return !isBound || claim.Spec.VolumeName == "" || claim.DeletionTimestamp != nil ||
		resizing.Concerns(claim) || resizing.AttributesConcerns(claim)
}

func keepClaim(from, to *corev1.PersistentVolumeClaim) {
	to.CreationTimestamp, to.Finalizers = from.CreationTimestamp, sharedList(from.Finalizers)
	to.OwnerReferences = from.OwnerReferences
	spec, status := &from.Spec, &from.Status
	to.Spec = corev1.PersistentVolumeClaimSpec{
		VolumeName: spec.VolumeName, StorageClassName: sharedText(spec.StorageClassName),
		VolumeAttributesClassName: sharedText(spec.VolumeAttributesClassName),
		VolumeMode:                sharedMode(spec.VolumeMode), AccessModes: sharedModes(spec.AccessModes),
		Resources: corev1.VolumeResourceRequirements{Requests: sharedStorage(spec.Resources.Requests)},
	}
	to.Status = corev1.PersistentVolumeClaimStatus{
		Phase: shared(status.Phase), AccessModes: sharedModes(status.AccessModes),
		Capacity:                         sharedStorage(status.Capacity),
		CurrentVolumeAttributesClassName: sharedText(status.CurrentVolumeAttributesClassName),
		Conditions:                       unusedOnly(status.Conditions),
	}
	if modify := status.ModifyVolumeStatus; modify != nil {
		to.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{
			TargetVolumeAttributesClassName: shared(modify.TargetVolumeAttributesClassName),
		}
	}
}

// The condition Unused with each of its values, shared by all claims. Only its status is read.
var unusedConditions = map[corev1.ConditionStatus][]corev1.PersistentVolumeClaimCondition{
	corev1.ConditionTrue:  {{Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue}},
	corev1.ConditionFalse: {{Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionFalse}},
}

// unusedOnly returns only the condition Unused, and of that only the status.
func unusedOnly(conditions []corev1.PersistentVolumeClaimCondition) []corev1.PersistentVolumeClaimCondition {
	for i := range conditions {
		if conditions[i].Type == corev1.PersistentVolumeClaimUnused {
			return unusedConditions[conditions[i].Status]
		}
	}
	return nil
}
