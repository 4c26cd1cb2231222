package source

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// cloneChecks are, in this order.
var cloneChecks = []func(*corev1.PersistentVolumeClaim, State, Rules) *verdict.Finding{
	sourceClaimExists, sourceClaimIsBound, claimsHaveClasses, cloneIsLargeEnough, volumeIsUsable, cloneHasMode,
}

func clone(claim *corev1.PersistentVolumeClaim, s State, r Rules) (*csi.VolumeContentSource, *verdict.Finding) {
	for _, check := range cloneChecks {
		if finding := check(claim, s, r); finding != nil {
			return nil, finding
		}
	}
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: s.Volume.Spec.CSI.VolumeHandle},
	}}, nil
}

func sourceClaimExists(_ *corev1.PersistentVolumeClaim, s State, _ Rules) *verdict.Finding {
	if s.Claim == nil {
		return missing(fmt.Sprintf("source claim %q", s.Ref.NamespacedName), "does not exist")
	}
	return nil
}

func sourceClaimIsBound(_ *corev1.PersistentVolumeClaim, s State, _ Rules) *verdict.Finding {
	switch {
	case s.Claim.DeletionTimestamp != nil:
		return refused(verdict.SourceDeleting, "source claim %q is being deleted", s.Ref.NamespacedName)
	case s.Claim.Status.Phase == corev1.ClaimLost:
		return refused(verdict.SourceInvalid, "source claim %q has lost its volume", s.Ref.NamespacedName)
	case s.Claim.Status.Phase != corev1.ClaimBound || s.Claim.Spec.VolumeName == "":
		return refused(verdict.SourceNotReady, "source claim %q is not bound to a volume yet", s.Ref.NamespacedName)
	}
	return nil
}

// claimsHaveClasses is R-62. The two classes may differ. A class is named by spec.storageClassName
// or by the beta annotation (#333).
func claimsHaveClasses(claim *corev1.PersistentVolumeClaim, s State, _ Rules) *verdict.Finding {
	for _, c := range []*corev1.PersistentVolumeClaim{s.Claim, claim} {
		_, annotated := c.Annotations[names.AnnBetaStorageClass]
		if c.Spec.StorageClassName == nil && !annotated {
			return refused(verdict.SourceInvalid,
				"claim %s/%s has no spec.storageClassName, which a clone and its source need",
				c.Namespace, c.Name)
		}
	}
	return nil
}

func cloneIsLargeEnough(claim *corev1.PersistentVolumeClaim, s State, _ Rules) *verdict.Finding {
	asked, has := requested(claim), requested(s.Claim)
	if size.Compare(asked, has) >= 0 {
		return nil
	}
	return &verdict.Finding{
		Reason: verdict.SourceLarger,
		Message: fmt.Sprintf("claim spec.resources.requests.storage: %s is less than the %s of source claim %q",
			asked.String(), has.String(), s.Ref.NamespacedName),
		Fix: "Ask for that or more",
	}
}

// volumeIsUsable is R-65, with a reason for each case. The caller has translated a volume of an
// in-tree plugin (M-7).
func volumeIsUsable(_ *corev1.PersistentVolumeClaim, s State, r Rules) *verdict.Finding {
	of := fmt.Sprintf("PersistentVolume %q of source claim %q", s.Claim.Spec.VolumeName, s.Ref.NamespacedName)
	switch pv := s.Volume; {
	case pv == nil:
		return missing(of, "does not exist")
	case pv.Spec.CSI == nil:
		return refused(verdict.SourceInvalid, "%s is not a CSI volume, so it cannot be cloned", of)
	case pv.Spec.CSI.Driver != r.Driver:
		return otherDriver(of, pv.Spec.CSI.Driver, r)
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != s.Claim.UID ||
		pv.Spec.ClaimRef.Namespace != s.Claim.Namespace ||
		pv.Spec.ClaimRef.Name != s.Claim.Name:
		return refused(verdict.SourceInvalid, "%s is bound to another claim", of)
	case pv.Status.Phase != corev1.VolumeBound:
		return refused(verdict.SourceNotReady, "%s is not bound: its phase is %s", of, orNone(string(pv.Status.Phase)))
	}
	return nil
}

func cloneHasMode(claim *corev1.PersistentVolumeClaim, s State, _ Rules) *verdict.Finding {
	if objects.IsBlock(claim.Spec.VolumeMode) == objects.IsBlock(s.Claim.Spec.VolumeMode) {
		return nil
	}
	return refused(verdict.SourceModeDiffers, "claim spec.volumeMode: %s is not that of source claim %q, which is %s",
		mode(claim.Spec.VolumeMode), s.Ref.NamespacedName, mode(s.Claim.Spec.VolumeMode))
}

func otherDriver(what, driver string, r Rules) *verdict.Finding {
	return &verdict.Finding{
		Reason:  verdict.SourceOfOtherDriver,
		Message: fmt.Sprintf("%s is of CSI driver %q, and the StorageClass of the claim of %q", what, driver, r.Driver),
		Fix:     "Name a StorageClass of the same driver",
	}
}
