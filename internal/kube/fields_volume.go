package kube

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
)

// VolumeFields are what binding, protection, expansion and the metrics read of a PersistentVolume.
// A volume that is not bound yet stays whole, because claims are matched with it.
var VolumeFields = whole(isFree, Reads(keepVolume,
	names.AnnBoundByController,
	names.AnnProvisionedBy,
	names.AnnMigratedTo,
	names.AnnPreResizeCapacity,
	names.AnnBetaStorageClass,
	names.OwnPrefix, // a misspelt one too: it keeps the volume
))

// isFree reports whether the volume is not bound yet.
func isFree(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == "" || pv.Status.Phase == corev1.VolumePending || pv.Status.Phase == corev1.VolumeAvailable
}

func keepVolume(from, to *corev1.PersistentVolume) {
	to.CreationTimestamp, to.Finalizers = from.CreationTimestamp, sharedList(from.Finalizers)
	have, spec := &from.Spec, &to.Spec
	spec.Capacity = sharedStorage(have.Capacity)
	spec.AccessModes, spec.VolumeMode = sharedModes(have.AccessModes), sharedMode(have.VolumeMode)
	spec.PersistentVolumeReclaimPolicy = shared(have.PersistentVolumeReclaimPolicy)
	spec.StorageClassName = shared(have.StorageClassName)
	spec.VolumeAttributesClassName = sharedText(have.VolumeAttributesClassName)
	if spec.PersistentVolumeSource == (corev1.PersistentVolumeSource{}) { // else other Fields keep more of it
		spec.PersistentVolumeSource = sharedSource(have.PersistentVolumeSource)
	}
	if ref := have.ClaimRef; ref != nil {
		spec.ClaimRef = &corev1.ObjectReference{Namespace: shared(ref.Namespace), Name: ref.Name, UID: ref.UID}
	} else {
		to.Labels = from.Labels // claims select by them
	}
	to.Status = from.Status
	trimVolumeStatus(&to.Status)
}

// AttachedVolumeFields are the further fields of a bound volume that the attach-detach controller
// reads: driver and handle, or the in-tree source from which these are translated.
var AttachedVolumeFields = Reads(func(from, to *corev1.PersistentVolume) {
	if keepHandle(from, to) == nil { // a migrated volume is translated from its labels too: the zone of a GCE disk
		to.Labels = from.Labels
	}
})

// keepHandle keeps driver and handle, and returns where they are. Of a volume that is not CSI it
// keeps the source, and returns nil.
func keepHandle(from, to *corev1.PersistentVolume) *corev1.CSIPersistentVolumeSource {
	source := from.Spec.CSI
	if source == nil {
		to.Spec.PersistentVolumeSource = from.Spec.PersistentVolumeSource
		return nil
	}
	if have := to.Spec.CSI; have == nil || have.VolumeHandle == "" { // one without a handle is pooled
		to.Spec.CSI = &corev1.CSIPersistentVolumeSource{
			Driver:       shared(source.Driver),
			VolumeHandle: source.VolumeHandle,
		}
	}
	return to.Spec.CSI
}

// ProvisionedVolumeFields are the further fields of a bound volume that a provisioner reads: the
// node affinity and those that the deletion needs. Each volume that upstream provisioned has the
// two annotations.
var ProvisionedVolumeFields = Reads(func(from, to *corev1.PersistentVolume) {
	to.Spec.NodeAffinity = sharedAffinity(from.Spec.NodeAffinity)
	if keepHandle(from, to) == nil { // a migrated volume is translated from its labels too
		to.Labels = from.Labels
	}
}, names.AnnDeletionSecretName, names.AnnDeletionSecretNamespace)

// ExpandedVolumeFields are the fields of a bound volume that a resizer sends to the driver.
var ExpandedVolumeFields = Reads(func(from, to *corev1.PersistentVolume) {
	to.Spec.MountOptions = sharedList(from.Spec.MountOptions)
	csi := keepHandle(from, to)
	if csi == nil { // a migrated volume is translated from its labels too
		to.Labels = from.Labels
	} else {
		source := from.Spec.CSI
		csi.FSType, csi.ReadOnly = shared(source.FSType), source.ReadOnly
		csi.ControllerExpandSecretRef = source.ControllerExpandSecretRef
	}
}, names.AnnControllerModifySecret, names.AnnControllerModifySecretNS)

// PlacedVolumeFields are the further fields of a bound volume by which an instance of one node finds the
// volumes there: the node affinity, and the identity of the provisioner of a volume without one.
var PlacedVolumeFields = Reads(func(from, to *corev1.PersistentVolume) {
	to.Spec.NodeAffinity = sharedAffinity(from.Spec.NodeAffinity)
	if csi := keepHandle(from, to); csi != nil {
		const key = names.AttributeProvisionerIdentity
		if identity, has := from.Spec.CSI.VolumeAttributes[key]; has {
			csi.VolumeAttributes = map[string]string{key: identity}
		}
	}
})

// HealthFields are the fields of claims and bound volumes by which their health is shown.
var HealthFields = []*Fields{
	Reads(func(from, to *corev1.PersistentVolume) {
		if from.Spec.CSI != nil {
			keepHandle(from, to)
		}
		to.Spec.StorageClassName = shared(from.Spec.StorageClassName)
		to.Status.Phase = shared(from.Status.Phase)
		if ref := from.Spec.ClaimRef; ref != nil && to.Spec.ClaimRef == nil {
			to.Spec.ClaimRef = &corev1.ObjectReference{Namespace: shared(ref.Namespace), Name: ref.Name, UID: ref.UID}
		}
	}, names.AnnBetaStorageClass),
	Reads(func(from, to *corev1.PersistentVolumeClaim) {
		to.Spec.VolumeName, to.Status.HealthStatus = from.Spec.VolumeName, from.Status.HealthStatus
	}),
}

// PodFields are which claims a pod names, where it runs or why it does not, and how far it is.
var PodFields = Reads(func(from, to *corev1.Pod) {
	pod := *from
	if _, err := TrimPod(&pod); err == nil {
		to.Spec.NodeName, to.Spec.Volumes = pod.Spec.NodeName, pod.Spec.Volumes
		to.Status.Phase, to.Status.Conditions = pod.Status.Phase, pod.Status.Conditions
	}
})

// PublishedVolumeFields are the fields of a volume that an attacher reads: those that ControllerPublishVolume
// gets, and the finalizers. Of a volume that is not CSI it keeps all, since it is translated.
var PublishedVolumeFields = Reads(func(from, to *corev1.PersistentVolume) {
	source := from.Spec.CSI
	if source == nil {
		to.ObjectMeta, to.Spec, to.Status = from.ObjectMeta, from.Spec, from.Status
		to.ManagedFields = nil
		return
	}
	to.CreationTimestamp, to.Finalizers = from.CreationTimestamp, sharedList(from.Finalizers)
	spec := &to.Spec
	spec.AccessModes, spec.VolumeMode = sharedModes(from.Spec.AccessModes), sharedMode(from.Spec.VolumeMode)
	spec.MountOptions = sharedList(from.Spec.MountOptions)
	csi := keepHandle(from, to)
	csi.FSType, csi.ReadOnly = shared(source.FSType), source.ReadOnly
	csi.VolumeAttributes = sharedWhole(source.VolumeAttributes)
	csi.ControllerPublishSecretRef = source.ControllerPublishSecretRef
})

// DriverNodeFields are the drivers of a CSINode.
var DriverNodeFields = Reads(func(from, to *storagev1.CSINode) {
	to.ObjectMeta, to.Spec = from.ObjectMeta, from.Spec
	to.ManagedFields, to.Annotations = nil, nil
})

// AttributesClassFields are what CreateVolume and ControllerModifyVolume get of a
// VolumeAttributesClass, and its driver.
var AttributesClassFields = Reads(func(from, to *storagev1.VolumeAttributesClass) {
	to.DriverName, to.Parameters = from.DriverName, from.Parameters
})
