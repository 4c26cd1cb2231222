package binding

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/size"
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

// rule is one rule of matching: the field of the volume, and the words for a volume that misses it.
type rule struct {
	field  string
	misses func(*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) bool
	why    string
}

const leaving = "metadata.deletionTimestamp"

// mustFit holds even for a volume that names the claim. Class and selector are not compared: the user
// who named the claim in claimRef chose.
var mustFit = []rule{
	{leaving, isLeaving, "the volume is marked for deletion"},
	{"spec.capacity.storage", isTooSmall, "requested PV is too small"},
	{"spec.volumeAttributesClassName", hasOtherAttributes, "volumeAttributesClassName does not match"},
	{"spec.volumeMode", hasOtherMode, "incompatible volumeMode"},
	{"spec.accessModes", lacksModes, "incompatible accessMode"},
}

// mustBeChosen holds besides for a volume that the binder may choose (1.9).
var mustBeChosen = []rule{
	{"spec.claimRef", namesOther, ""},
	{"spec.storageClassName", hasOtherClass, "storageClassName does not match"},
	{"metadata.labels", isNotSelected, ""},
}

// Misfits returns the fields of the volume for which the binder does not choose it for the claim.
func Misfits(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (fields []string) {
	for _, rules := range [][]rule{mustFit, mustBeChosen} {
		for _, r := range rules {
			if r.misses(pv, claim) {
				fields = append(fields, r.field)
			}
		}
	}
	return fields
}

// fits is what must hold even for a volume that names the claim; why not is "" when it does.
func fits(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (why string) {
	for _, r := range mustFit {
		if !r.misses(pv, claim) {
			continue
		}
		if r.field == leaving {
			return r.why + " \"" + pv.Name + "\""
		}
		return r.why
	}
	return ""
}

func isLeaving(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return pv.DeletionTimestamp != nil && !isGivenTo(pv, claim)
}

func hasOtherAttributes(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return deref(pv.Spec.VolumeAttributesClassName) != deref(claim.Spec.VolumeAttributesClassName)
}

func hasOtherMode(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return isBlock(pv.Spec.VolumeMode) != isBlock(claim.Spec.VolumeMode)
}

func namesOther(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return pv.Spec.ClaimRef != nil && !namesClaim(pv, claim)
}

func hasOtherClass(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return objects.VolumeClass(pv) != objects.ClaimClass(claim)
}

func isNotSelected(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	selector, ok := selectorOf(claim)
	return !ok || selector != nil && !selector.Matches(labels.Set(pv.Labels))
}

func isTooSmall(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return sizeOf(pv.Spec.Capacity).Compare(sizeOf(claim.Spec.Resources.Requests)) < 0
}

// satisfies is fits for a volume that the claim names and that has no claimRef: the class must be the
// same as well (1.7).
func satisfies(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (why string) {
	if pv.DeletionTimestamp == nil && !isTooSmall(pv, claim) && hasOtherClass(pv, claim) {
		return "storageClassName does not match"
	}
	return fits(pv, claim)
}

// Suits reports whether a volume without a claimRef may be chosen for the claim (1.9).
// [Index.BestVolume] finds only such.
func Suits(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return Matchable(pv) && len(Misfits(pv, claim)) == 0
}

// TakesNamed reports whether the claim is about to take the volume that it names, and that names no
// claim. Setting that volume to Available meanwhile would be an unnecessary write, which conflicts
// with the binding.
func TakesNamed(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	return claim.Spec.VolumeName == pv.Name && pv.Spec.ClaimRef == nil &&
		(completed(claim) && wasBound(claim) || claim.DeletionTimestamp == nil && satisfies(pv, claim) == "")
}

func lacksModes(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(claim.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(pv.Spec.AccessModes, mode)
	})
}

// sizeOf is compared only: volumes and claims may have more than an int64 holds.
func sizeOf(of corev1.ResourceList) size.Exact { return size.ExactOf(of[corev1.ResourceStorage]) }

func isBlock(mode *corev1.PersistentVolumeMode) bool {
	return objects.IsBlock(mode)
}

func completed(claim *corev1.PersistentVolumeClaim) bool {
	_, ok := claim.Annotations[names.AnnBindCompleted]
	return ok
}

// wasBound reports whether a controller has found the claim bound. A user of the namespace can write
// the annotation bind-completed and not the status. Lost proves nothing: a claim with the annotation
// and without a volume becomes Lost, too.
func wasBound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == corev1.ClaimBound
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
