package kube

import (
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

const annLastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Trim is a cache transform that removes the fields that no decision reads (#587). Nearly all
// cached objects are bound claims and volumes. Trim keeps the fields that identify the owner and
// those that the deletion needs, and pools equal values.
//
// A trimmed object must not be sent in an update, except for a VolumeSnapshot; use patches. It shares
// maps, lists and pointers with other objects, so a reader without a deep copy must not change it.
func Trim(in any) (any, error) {
	object, err := meta.Accessor(in)
	if err != nil {
		return in, nil // a tombstone of the cache, not an object
	}
	object.SetManagedFields(nil)
	if _, isWritten := in.(*snapshotv1.VolumeSnapshot); isWritten { // by an update (RB-5)
		return in, nil
	}
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

// trimClaim keeps the spec and the labels of a claim without a volume, since the volume is made
// from them. Of a bound claim it keeps only the name of its volume, and the class for the log.
func trimClaim(claim *corev1.PersistentVolumeClaim) {
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: shared(claim.Status.Phase)}
	if claim.Spec.VolumeName == "" {
		return
	}
	trimMeta(&claim.ObjectMeta, names.AnnBetaStorageClass)
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		VolumeName: claim.Spec.VolumeName, StorageClassName: sharedText(claim.Spec.StorageClassName),
	}
}

// trimVolume keeps the provisioner, the claim, the node affinity and the fields for the deletion. Of a
// volume that is not CSI it keeps the source and the labels: if its in-tree plugin was migrated, it
// is translated from these.
func trimVolume(pv *corev1.PersistentVolume) {
	labels, source := pv.Labels, pv.Spec.PersistentVolumeSource
	trimMeta(
		&pv.ObjectMeta,
		names.AnnProvisionedBy,
		names.AnnMigratedTo,
		names.AnnDeletionSecretName,
		names.AnnDeletionSecretNamespace,
		names.AnnBetaStorageClass,
		names.OwnPrefix, // purser/reuse and a misspelt one keep the volume
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

// trimVolumeStatus keeps the phase, and for a released volume the time of the phase change, from
// which the decision tells whether a live read is needed.
func trimVolumeStatus(status *corev1.PersistentVolumeStatus) {
	since := status.LastPhaseTransitionTime
	*status = corev1.PersistentVolumeStatus{Phase: shared(status.Phase)}
	if status.Phase == corev1.VolumeReleased {
		status.LastPhaseTransitionTime = since
	}
}

// trimMeta keeps the named annotations, the identity of an object, its timestamps and all
// finalizers. The list of finalizers stays whole, because a JSON patch has an index in it.
func trimMeta(o *metav1.ObjectMeta, annotations ...string) {
	*o = metav1.ObjectMeta{
		Namespace: shared(o.Namespace), Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
		CreationTimestamp: o.CreationTimestamp, DeletionTimestamp: o.DeletionTimestamp,
		Finalizers:  sharedList(o.Finalizers),
		Annotations: sharedPart(o.Annotations, append(annotations, names.AnnTraceParent)),
	}
}
