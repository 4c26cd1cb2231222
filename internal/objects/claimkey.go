package objects

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClaimKey is one claim for as long as it exists: a claim that is created again under its name is
// another one and inherits nothing (RZ-H5).
type ClaimKey struct {
	types.NamespacedName
	UID types.UID
}

// KeyOfClaim returns the key of a claim.
func KeyOfClaim(claim *corev1.PersistentVolumeClaim) ClaimKey {
	return ClaimKey{
		NamespacedName: types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}, UID: claim.UID,
	}
}

// IsVolumeOf reports whether the volume's claimRef names the claim with its uid.
func IsVolumeOf(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == claim.Namespace && ref.UID == claim.UID
}

// ClaimOf returns the name of the claim that a PersistentVolume with a claimRef is for.
func ClaimOf(pv *corev1.PersistentVolume) types.NamespacedName {
	return types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
}
