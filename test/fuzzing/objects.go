package fuzzing

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claim returns a PersistentVolumeClaim; nil at the end of the input.
func (r *Reader) Claim() *corev1.PersistentVolumeClaim {
	if !r.Bool() {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: r.Meta()}
	claim.Spec.VolumeName, claim.Spec.StorageClassName = r.Text(), r.MaybeText()
	claim.Spec.VolumeAttributesClassName = r.MaybeText()
	for range r.Byte() % 3 {
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.PersistentVolumeAccessMode(r.Text()))
	}
	claim.Spec.Resources.Requests = r.Sizes()
	claim.Status.Capacity, claim.Status.AllocatedResources = r.Sizes(), r.Sizes()
	claim.Status.Phase = corev1.PersistentVolumeClaimPhase(r.Text())
	if r.Bool() {
		claim.Status.Phase = corev1.ClaimBound
	}
	if r.Bool() {
		claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.ClaimResourceStatus(r.Text()),
		}
	}
	claim.Status.CurrentVolumeAttributesClassName = r.MaybeText()
	if r.Bool() {
		claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{
			TargetVolumeAttributesClassName: r.Text(), Status: corev1.PersistentVolumeClaimModifyVolumeStatus(r.Text()),
		}
	}
	for range r.Byte() % 3 {
		claim.Status.Conditions = append(claim.Status.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimConditionType(r.Text()), Status: corev1.ConditionStatus(r.Text()),
			LastTransitionTime: r.Time(), Message: r.Text(),
		})
	}
	return claim
}

// Sizes returns the resources of a claim or volume: nil, none or the storage.
func (r *Reader) Sizes() corev1.ResourceList {
	switch r.Byte() % 3 {
	case 1:
		return corev1.ResourceList{corev1.ResourceStorage: r.Quantity()}
	case 2:
		return corev1.ResourceList{}
	}
	return nil
}

// Volume returns a PersistentVolume; nil at the end of the input.
func (r *Reader) Volume() *corev1.PersistentVolume {
	if !r.Bool() {
		return nil
	}
	pv := &corev1.PersistentVolume{ObjectMeta: r.Meta()}
	pv.Spec.Capacity, pv.Spec.StorageClassName = r.Sizes(), r.Text()
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(r.Text())
	pv.Spec.VolumeAttributesClassName = r.MaybeText()
	pv.Status.Phase = corev1.PersistentVolumePhase(r.Text())
	if r.Bool() {
		pv.Spec.CSI = r.CSI()
	}
	if r.Bool() {
		pv.Spec.ClaimRef = &corev1.ObjectReference{UID: types.UID(r.Text()), Name: r.Text(), Namespace: r.Text()}
	}
	for range r.Byte() % 3 {
		pv.Spec.AccessModes = append(pv.Spec.AccessModes, corev1.PersistentVolumeAccessMode(r.Text()))
	}
	if r.Bool() {
		pv.Spec.VolumeMode = new(corev1.PersistentVolumeMode(r.Text()))
	}
	pv.Spec.MountOptions = r.Texts()
	if r.Bool() {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{}
		if r.Bool() {
			pv.Spec.NodeAffinity.Required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: r.Text(), Operator: corev1.NodeSelectorOperator(r.Text()), Values: r.Texts(),
				}},
			}}}
		}
	}
	return pv
}

// CSI returns the source of a PersistentVolume.
func (r *Reader) CSI() *corev1.CSIPersistentVolumeSource {
	csi := &corev1.CSIPersistentVolumeSource{
		Driver: r.Text(), VolumeHandle: r.Text(), ReadOnly: r.Bool(), FSType: r.Text(), VolumeAttributes: r.Pairs(),
	}
	for _, ref := range []**corev1.SecretReference{
		&csi.ControllerPublishSecretRef, &csi.ControllerExpandSecretRef, &csi.NodeStageSecretRef, &csi.NodePublishSecretRef,
	} {
		if r.Seldom() {
			*ref = &corev1.SecretReference{Name: r.Text(), Namespace: r.Text()}
		}
	}
	return csi
}

// Class returns a StorageClass; nil at the end of the input.
func (r *Reader) Class() *storagev1.StorageClass {
	if !r.Bool() {
		return nil
	}
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: r.Text()}, Provisioner: r.Text(), Parameters: r.Pairs(), MountOptions: r.Texts(),
	}
	if r.Bool() {
		class.VolumeBindingMode = new(storagev1.VolumeBindingMode(r.Text()))
	}
	if r.Bool() {
		class.AllowVolumeExpansion = new(r.Bool())
	}
	return class
}

// Attachment returns a VolumeAttachment; nil at the end of the input.
func (r *Reader) Attachment() *storagev1.VolumeAttachment {
	if !r.Bool() {
		return nil
	}
	va := &storagev1.VolumeAttachment{ObjectMeta: r.Meta()}
	va.Spec.Attacher, va.Spec.NodeName, va.Spec.Source.PersistentVolumeName = r.Text(), r.Text(), r.MaybeText()
	if r.Seldom() {
		va.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{AccessModes: nil}
		if r.Bool() {
			va.Spec.Source.InlineVolumeSpec.CSI = r.CSI()
		}
	}
	va.Status.Attached, va.Status.AttachmentMetadata = r.Bool(), r.Pairs()
	for _, failure := range []**storagev1.VolumeError{&va.Status.AttachError, &va.Status.DetachError} {
		if r.Bool() {
			*failure = &storagev1.VolumeError{Time: r.Time(), Message: r.Text()}
		}
	}
	return va
}

// Node returns a Node; nil at the end of the input.
func (r *Reader) Node() *corev1.Node {
	if !r.Bool() {
		return nil
	}
	node := &corev1.Node{ObjectMeta: r.Meta()}
	node.Labels = r.Pairs()
	for range r.Byte() % 3 {
		name := corev1.UniqueVolumeName(r.Text())
		node.Status.VolumesInUse = append(node.Status.VolumesInUse, name)
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: name})
	}
	return node
}

// CSINode returns a CSINode; nil at the end of the input.
func (r *Reader) CSINode() *storagev1.CSINode {
	if !r.Bool() {
		return nil
	}
	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: r.Text()}}
	for range r.Byte() % 3 {
		driver := storagev1.CSINodeDriver{Name: r.Text(), NodeID: r.Text(), TopologyKeys: r.Texts()}
		if r.Bool() {
			driver.Allocatable = &storagev1.VolumeNodeResources{}
			if r.Bool() {
				driver.Allocatable.Count = new(int32(int8(r.Byte())))
			}
		}
		node.Spec.Drivers = append(node.Spec.Drivers, driver)
	}
	return node
}
