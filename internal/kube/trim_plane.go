package kube

import (
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// TrimForPlane returns a cache transform for controllers and a provisioner that share what they
// see: of each object it keeps what [TrimForBinding] keeps and what [Trim] does, which is less than
// both of them apart.
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
			source, labels := o.Spec.PersistentVolumeSource, o.Labels
			affinity := sharedAffinity(o.Spec.NodeAffinity)
			out, err := forBinding(in)
			o.Spec.NodeAffinity = affinity
			if csi := source.CSI; csi == nil { // what a migrated volume is translated from
				o.Spec.PersistentVolumeSource, o.Labels = source, labels
			} else {
				o.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: shared(csi.Driver), VolumeHandle: csi.VolumeHandle}
			}
			return out, err
		}
		return forBinding(in)
	}
}
