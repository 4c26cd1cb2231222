package provision

import (
	"fmt"
	"maps"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/internal/verdict"
)

// NewVolume returns the PersistentVolume for a created volume (P-1 to P-17). Its claimRef has the
// claim's uid, which commits the binding (C1). It has our finalizer from the start, so that it is
// not deleted before its volume (C-80).
func NewVolume(s Snapshot, sent CreateVolume, created *csi.Volume) *corev1.PersistentVolume {
	request := sent.Request
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        request.GetName(),
			Finalizers:  finalizers(s),
			Labels:      volumeMetadata(s, ClaimLabel, nil),
			Annotations: annotations(s, sent.Secrets),
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:      s.Claim.Spec.AccessModes,
			MountOptions:     s.Class.MountOptions,
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: capacity(request, created)},
			VolumeMode:       s.Claim.Spec.VolumeMode,
			StorageClassName: objects.ClaimClass(s.Claim),
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1",
				Namespace: s.Claim.Namespace, Name: s.Claim.Name, UID: s.Claim.UID,
				ResourceVersion: s.Claim.ResourceVersion,
			},
			NodeAffinity: affinity(s, created),
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: csiSource(s, sent, created),
			},
		},
	}
	if name := attributesClass(s); name != "" { // P-13
		pv.Spec.VolumeAttributesClassName = &name
	}
	if s.Class.ReclaimPolicy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *s.Class.ReclaimPolicy
	}
	return pv
}

// finalizers are ours, and that of the attacher in this process, which saves its write at the first
// attach. Without an attacher it would never be removed.
func finalizers(s Snapshot) []string {
	all := []string{names.FinalizerVolume}
	if s.Options.Attaches && s.Driver.Controller[csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME] {
		all = append(all, names.AttacherFinalizer(s.Driver.Name))
	}
	return all
}

// affinity returns the node affinity of the volume; nil if topology is off for this driver. Nodes
// may lack the labels of its topology keys then, and the pods would stay Pending for ever (P-12,
// T-1).
func affinity(s Snapshot, created *csi.Volume) *corev1.VolumeNodeAffinity {
	if !s.Driver.HasTopology {
		return nil
	}
	return topology.Affinity(created.GetAccessibleTopology())
}

func annotations(s Snapshot, secrets secretref.Set) map[string]string {
	deletion, modify := secrets.Of(secretref.Deletion), secrets.Of(secretref.ControllerModify)
	out := volumeMetadata(s, ClaimAnnotation, map[string]string{})
	out[names.AnnProvisionedBy] = s.Driver.Name
	// Both are always written, so that deletion never has to guess whether a secret is used (AN-8,
	// O-32).
	out[names.AnnDeletionSecretName], out[names.AnnDeletionSecretNamespace] = deletion.Name, deletion.Namespace
	if modify.Name != "" { // AN-9
		out[names.AnnControllerModifySecret] = modify.Name
		out[names.AnnControllerModifySecretNS] = modify.Namespace
	}
	return out
}

func csiSource(s Snapshot, sent CreateVolume, created *csi.Volume) *corev1.CSIPersistentVolumeSource {
	attributes := map[string]string{names.AttributeProvisionerIdentity: s.Options.Identity}
	maps.Copy(attributes, created.GetVolumeContext()) // P-6: the driver wins
	return &corev1.CSIPersistentVolumeSource{
		Driver:           s.Driver.Name,
		VolumeHandle:     created.GetVolumeId(),
		VolumeAttributes: attributes,
		FSType:           requestedFSType(sent.Request),
		ReadOnly:         s.Options.ControllerPublishReadOnly && readOnly(sent.Request),
		// P-7
		ControllerPublishSecretRef: sent.Secrets.Reference(secretref.ControllerPublish),
		NodeStageSecretRef:         sent.Secrets.Reference(secretref.NodeStage),
		NodePublishSecretRef:       sent.Secrets.Reference(secretref.NodePublish),
		ControllerExpandSecretRef:  sent.Secrets.Reference(secretref.ControllerExpand),
		NodeExpandSecretRef:        sent.Secrets.Reference(secretref.NodeExpand),
	}
}

// capacity returns the size in the response, or the requested one if it has none (P-4, C-71).
func capacity(request *csi.CreateVolumeRequest, created *csi.Volume) resource.Quantity {
	bytes := created.GetCapacityBytes()
	if bytes == 0 {
		bytes = request.GetCapacityRange().GetRequiredBytes()
	}
	return size.Quantity(bytes)
}

func requestedFSType(request *csi.CreateVolumeRequest) string { // P-9: empty for block
	for _, c := range request.GetVolumeCapabilities() {
		return c.GetMount().GetFsType()
	}
	return ""
}

func readOnly(request *csi.CreateVolumeRequest) bool { // P-8
	c := request.GetVolumeCapabilities()
	return len(c) == 1 && c[0].GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
}

// belongsTo reports whether the PersistentVolume is for the claim, whichever provisioner created it.
func belongsTo(pv *corev1.PersistentVolume, key Key) bool {
	return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == key.UID
}

// describes reports whether the PersistentVolume is for the claim and of this driver.
func describes(s Snapshot) bool {
	return s.Volume != nil && belongsTo(s.Volume, s.Key) && s.Volume.Spec.CSI != nil &&
		s.Volume.Spec.CSI.Driver == s.Driver.Name
}

// hasAnother reports whether the claim has a PersistentVolume of another provisioner, as when its
// class was created again for another driver. Our volume is not wanted then.
func hasAnother(s Snapshot) bool {
	return s.Volume != nil && belongsTo(s.Volume, s.Key) && !describes(s)
}

// isAnswered reports whether the PersistentVolume is of the volume of the journal entry. It is not
// if the driver is known to have created another volume since: that one is unwanted, and without
// its entry it would be leaked (H-1).
func isAnswered(s Snapshot) bool {
	known := s.Pending.Known.Handle
	return describes(s) && (known == "" || known == s.Volume.Spec.CSI.VolumeHandle)
}

// GotVolume reports whether an unbound claim has its PersistentVolume.
func GotVolume(s Snapshot) bool {
	return s.Claim != nil && s.Claim.Spec.VolumeName == "" && describes(s)
}

func conflict(have *corev1.PersistentVolume, why string) verdict.Finding {
	return verdict.Finding{
		Reason:  verdict.VolumeConflict,
		Message: fmt.Sprintf("PersistentVolume %q exists already, but %s", have.Name, why),
		Fix:     "Delete the foreign PersistentVolume",
	}
}

// secondVolume reports a second volume of a claim. After a driver upgrade it may be another handle
// for the same data, so an administrator has to decide.
func secondVolume(have *corev1.PersistentVolume, handle string) verdict.Finding {
	return verdict.Finding{
		Reason: verdict.VolumeConflict,
		Message: fmt.Sprintf(
			"CSI driver %q answered with volume %q for a claim whose PersistentVolume %q has volume %q. Both are "+
				"kept, since they may have the same data",
			have.Spec.CSI.Driver,
			handle,
			have.Name,
			have.Spec.CSI.VolumeHandle,
		),
		Fix: fmt.Sprintf("If they have not, delete %q at the storage system", handle),
	}
}
