package kube

import (
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// TrimForAttaching returns a cache transform that keeps what the inner transform keeps, and of a
// volume also what the attach-detach controller reads: the access modes, and driver and handle, or
// the in-tree source from which these are translated.
func TrimForAttaching(inner toolscache.TransformFunc) toolscache.TransformFunc {
	return func(in any) (any, error) {
		pv, ok := in.(*corev1.PersistentVolume)
		if !ok {
			return inner(in)
		}
		source, modes := pv.Spec.PersistentVolumeSource, pv.Spec.AccessModes
		out, err := inner(in)
		pv.Spec.AccessModes = modes
		switch {
		case source.CSI == nil:
			pv.Spec.PersistentVolumeSource = source
		case pv.Spec.CSI == nil || pv.Spec.CSI.VolumeHandle != source.CSI.VolumeHandle:
			pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{
				Driver:       shared(source.CSI.Driver),
				VolumeHandle: source.CSI.VolumeHandle,
			}
		}
		return out, err
	}
}
