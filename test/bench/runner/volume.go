package runner

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// ProvisionedVolume returns the PersistentVolume of a claim as a provisioner of the driver writes it, with
// the finalizer of the attacher if an attacher in the same process removes it (FL-27).
func ProvisionedVolume(
	claim *corev1.PersistentVolumeClaim, driver, handle string, attacher bool,
) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-" + string(claim.UID), Finalizers: []string{names.FinalizerVolume},
			Annotations: map[string]string{
				names.AnnProvisionedBy: driver, names.AnnDeletionSecretName: "", names.AnnDeletionSecretNamespace: "",
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
			Capacity:                      claim.Spec.Resources.Requests,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driver, VolumeHandle: handle,
				VolumeAttributes: map[string]string{names.AttributeProvisionerIdentity: "1767225600000-1234-" + driver},
			}},
		},
	}
	if attacher {
		pv.Finalizers = append(pv.Finalizers, names.AttacherFinalizer(driver))
	}
	return pv
}
