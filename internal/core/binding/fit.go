package binding

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/objects"
)

// DelaysBinding reports whether the class waits for a pod. A class that does not exist delays
// nothing.
func DelaysBinding(class *storagev1.StorageClass) bool {
	return class != nil && deref(class.VolumeBindingMode) == storagev1.VolumeBindingWaitForFirstConsumer
}

// SeeksStatic reports whether the binder may choose an available volume for the claim. For a class
// that waits for a pod the scheduler chooses the volume (1.9), and a claim that is being deleted
// needs none.
func SeeksStatic(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	return claim != nil && claim.Spec.VolumeName == "" && !completed(claim) && claim.DeletionTimestamp == nil &&
		!DelaysBinding(class)
}

// LooksForStatic reports whether the claim of a snapshot may be bound to a volume that names no
// claim. A claim with a volume that is reserved for it does not look for another one.
func LooksForStatic(s Snapshot) bool {
	return s.Claim != nil && SeeksStatic(s.Claim, s.Class) && Reserved(s) == nil
}

// Matchable reports whether the volume is there for any claim that it fits.
func Matchable(pv *corev1.PersistentVolume) bool {
	return pv.Spec.ClaimRef == nil && pv.DeletionTimestamp == nil && pv.Status.Phase == corev1.VolumeAvailable
}

// namesClaim reports whether the volume is bound, or reserved by name, to the claim.
func namesClaim(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name &&
		(ref.UID == "" || ref.UID == claim.UID)
}

// isGivenTo reports whether the volume's claimRef has the claim's uid. Then the binding is
// completed even if the volume is being deleted: the protection finalizer keeps the volume while
// the claim exists, so an unbound volume would stay without use.
func isGivenTo(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID && claim.UID != ""
}

// fits is what must hold even for a volume that names the claim; why not is "" when it does. Class
// and selector are not compared: the user who named the claim in claimRef chose.
func fits(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (why string) {
	switch {
	case pv.DeletionTimestamp != nil && !isGivenTo(pv, claim):
		return "the volume is marked for deletion \"" + pv.Name + "\""
	case isTooSmall(pv, claim):
		return "requested PV is too small"
	case deref(pv.Spec.VolumeAttributesClassName) != deref(claim.Spec.VolumeAttributesClassName):
		return "volumeAttributesClassName does not match"
	case isBlock(pv.Spec.VolumeMode) != isBlock(claim.Spec.VolumeMode):
		return "incompatible volumeMode"
	case !hasModes(pv, claim):
		return "incompatible accessMode"
	}
	return ""
}

func isTooSmall(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return size(pv.Spec.Capacity) < size(claim.Spec.Resources.Requests)
}

// satisfies is fits for a volume that the claim names and that has no claimRef: the class must be the
// same as well (1.7).
func satisfies(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (why string) {
	if pv.DeletionTimestamp == nil && !isTooSmall(pv, claim) && objects.VolumeClass(pv) != objects.ClaimClass(claim) {
		return "storageClassName does not match"
	}
	return fits(pv, claim)
}

// Suits reports whether a volume without a claimRef may be chosen for the claim (1.9).
// [Index.BestVolume] finds only such.
func Suits(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	selector, ok := selectorOf(claim)
	return ok && Matchable(pv) && fits(pv, claim) == "" && objects.VolumeClass(pv) == objects.ClaimClass(claim) &&
		(selector == nil || selector.Matches(labels.Set(pv.Labels)))
}

// TakesNamed reports whether the claim is about to take the volume that it names, and that names no
// claim. Setting that volume to Available meanwhile would be an unnecessary write, which conflicts
// with the binding.
func TakesNamed(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	return claim.Spec.VolumeName == pv.Name && pv.Spec.ClaimRef == nil &&
		(completed(claim) || claim.DeletionTimestamp == nil && satisfies(pv, claim) == "")
}

func hasModes(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, mode) {
			return false
		}
	}
	return true
}

// size is in bytes, rounded up.
func size(of corev1.ResourceList) int64 {
	storage := of[corev1.ResourceStorage]
	return storage.Value()
}

func isBlock(mode *corev1.PersistentVolumeMode) bool {
	return objects.IsBlock(mode)
}

func completed(claim *corev1.PersistentVolumeClaim) bool {
	_, ok := claim.Annotations[names.AnnBindCompleted]
	return ok
}

func boundByController(annotations map[string]string) bool {
	_, ok := annotations[names.AnnBoundByController]
	return ok
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}
