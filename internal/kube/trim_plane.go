package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/core/names"
)

// keepForResizer restores the fields of a volume that a resizer sends to the driver.
func keepForResizer(pv *corev1.PersistentVolume, whole corev1.PersistentVolumeSpec) {
	pv.Spec.MountOptions = sharedList(whole.MountOptions)
	source := whole.CSI
	if source == nil { // an in-tree plugin's, which is translated
		pv.Spec.PersistentVolumeSource = whole.PersistentVolumeSource
		return
	}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{
		Driver: shared(source.Driver), VolumeHandle: source.VolumeHandle, FSType: shared(source.FSType),
		ReadOnly: source.ReadOnly, ControllerExpandSecretRef: source.ControllerExpandSecretRef,
	}
}

// TrimForPlane returns a cache transform for the cache that controllers and provisioner share. It
// keeps the fields that [TrimForBinding] keeps and those that [Trim] keeps.
func TrimForPlane(config BindingTrim) toolscache.TransformFunc {
	forBinding := TrimForBinding(config)
	return func(in any) (any, error) {
		switch o := in.(type) {
		case *corev1.PersistentVolumeClaim:
			if isWaiting(o) {
				break
			}
			whole := o.ObjectMeta
			out, err := forBinding(in)
			if o.Spec.VolumeName == "" { // the volume is made from all of it
				whole.ManagedFields = nil
				delete(whole.Annotations, annLastApplied)
				o.ObjectMeta = whole
			}
			return out, err
		case *corev1.PersistentVolume:
			if isFree(o) {
				break
			}
			whole, labels := o.Spec, o.Labels
			affinity := sharedAffinity(o.Spec.NodeAffinity)
			secret := sharedPart(o.Annotations, []string{names.AnnControllerModifySecret, names.AnnControllerModifySecretNS})
			out, err := forBinding(in)
			o.Spec.NodeAffinity = affinity
			if whole.CSI == nil { // what a migrated volume is translated from
				o.Labels = labels
			}
			keepForResizer(o, whole)
			for key, value := range secret {
				metav1.SetMetaDataAnnotation(&o.ObjectMeta, key, value)
			}
			return out, err
		}
		return forBinding(in)
	}
}
