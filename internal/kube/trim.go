package kube

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/core/names"
)

const annLastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Trim is a cache transform that drops what no decision ever reads, and that upstream keeps
// (docs/rows.md 2.2,
// #587). Nearly all that is in memory are claims and volumes which are bound: of those it keeps
// what tells whose they are and what deletes them, and what they have in common it keeps once.
//
// An object that was trimmed must never be sent back whole; write patches. It shares maps, lists
// and pointers with others, so a reader that is given no copy must not change it.
func Trim(in any) (any, error) {
	object, err := meta.Accessor(in)
	if err != nil {
		return in, nil // a tombstone of the cache, not an object
	}
	object.SetManagedFields(nil)
	if annotations := object.GetAnnotations(); annotations[annLastApplied] != "" {
		delete(annotations, annLastApplied)
	}
	switch o := in.(type) {
	case *corev1.PersistentVolumeClaim:
		trimClaim(o)
	case *corev1.PersistentVolume:
		trimVolume(o)
	case *storagev1.VolumeAttachment:
		trimMeta(&o.ObjectMeta)
		o.Status = storagev1.VolumeAttachmentStatus{}
	case *corev1.Node:
		o.Status = corev1.NodeStatus{}
		o.Spec = corev1.NodeSpec{}
		o.Annotations = nil
	}
	return in, nil
}

// trimClaim keeps the spec and the labels of a claim that is to get a volume, since the volume is
// made from it. Once it has one, only which matters, and the class for the log.
func trimClaim(claim *corev1.PersistentVolumeClaim) {
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: shared(claim.Status.Phase)}
	if claim.Spec.VolumeName == "" {
		return
	}
	trimMeta(&claim.ObjectMeta, names.AnnBetaStorageClass)
	class := claim.Spec.StorageClassName
	if class != nil {
		class = pooledPointers.get(*class, class)
	}
	claim.Spec = corev1.PersistentVolumeClaimSpec{VolumeName: claim.Spec.VolumeName, StorageClassName: class}
}

// trimVolume keeps who owns a volume, whom it is for, where it is and how it is deleted. What it is
// like is for others to read. Of a volume that is not of a CSI driver it keeps the source and the
// labels: if its plugin was migrated, it is translated from these.
func trimVolume(pv *corev1.PersistentVolume) {
	labels, source := pv.Labels, pv.Spec.PersistentVolumeSource
	trimMeta(
		&pv.ObjectMeta,
		names.AnnProvisionedBy,
		names.AnnMigratedTo,
		names.AnnDeletionSecretName,
		names.AnnDeletionSecretNamespace,
		names.AnnBetaStorageClass,
	)
	spec := corev1.PersistentVolumeSpec{
		PersistentVolumeReclaimPolicy: shared(
			pv.Spec.PersistentVolumeReclaimPolicy,
		), StorageClassName: shared(pv.Spec.StorageClassName), NodeAffinity: sharedAffinity(pv.Spec.NodeAffinity),
	}
	if ref := pv.Spec.ClaimRef; ref != nil {
		spec.ClaimRef = &corev1.ObjectReference{Namespace: shared(ref.Namespace), Name: ref.Name, UID: ref.UID}
	}
	if csi := source.CSI; csi != nil {
		spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: shared(csi.Driver), VolumeHandle: csi.VolumeHandle}
	} else {
		spec.PersistentVolumeSource, pv.Labels = source, labels
	}
	pv.Spec = spec
	trimVolumeStatus(&pv.Status)
}

// trimVolumeStatus keeps the phase, and since when a volume has been released, which says how much
// a view of it is worth.
func trimVolumeStatus(status *corev1.PersistentVolumeStatus) {
	since := status.LastPhaseTransitionTime
	*status = corev1.PersistentVolumeStatus{Phase: shared(status.Phase)}
	if status.Phase == corev1.VolumeReleased {
		status.LastPhaseTransitionTime = since
	}
}

// trimMeta keeps the named annotations, and of the rest what identifies an object and says whether
// it is going. The list of finalizers stays whole, because a patch names a place in it.
func trimMeta(o *metav1.ObjectMeta, annotations ...string) {
	*o = metav1.ObjectMeta{
		Namespace: shared(o.Namespace), Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
		CreationTimestamp: o.CreationTimestamp, DeletionTimestamp: o.DeletionTimestamp,
		Finalizers: sharedList(o.Finalizers), Annotations: sharedPart(o.Annotations, annotations),
	}
}
