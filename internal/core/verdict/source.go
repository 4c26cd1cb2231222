package verdict

// Reasons about the source of a claim: another claim, a VolumeSnapshot, or another kind.
const (
	SourceForeign       Reason = "SourceForeign"
	SourceNamespaceOff  Reason = "SourceNamespaceOff"
	SourceNotGranted    Reason = "SourceNotGranted"
	SourceMissing       Reason = "SourceMissing"
	SourceForbidden     Reason = "SourceForbidden"
	SourceNotReady      Reason = "SourceNotReady"
	SourceDeleting      Reason = "SourceDeleting"
	SourceOfOtherDriver Reason = "SourceOfOtherDriver"
	SourceInvalid       Reason = "SourceInvalid"
	SourceLarger        Reason = "SourceLarger"
	SourceModeDiffers   Reason = "SourceModeDiffers"
)

// Reasons about the finalizer that keeps a source while volumes are made from it.
const (
	SourceUnprotected Reason = "SourceUnprotected"
	SourceNotOurs     Reason = "SourceNotOurs"
	SourceInUse       Reason = "SourceInUse"
	SourceReleased    Reason = "SourceReleased"
)

// Reasons about the VolumeAttributesClass that a claim names for its new volume.
const (
	CreateAttributesMissing     Reason = "CreateAttributesMissing"
	CreateAttributesForbidden   Reason = "CreateAttributesForbidden"
	CreateAttributesOtherDriver Reason = "CreateAttributesOtherDriver"
)

var sourceInfos = map[Reason]Info{
	SourceForeign: {
		Normal, eventProvisioning, "The claim names a source of a kind that no CSI driver can read, so a volume populator of that kind has to create the volume.",
		"Is the populator of that kind installed? kubectl get volumepopulators lists them. The provisioner does not create the volume.",
	},
	SourceNamespaceOff: failedClaim("The claim names a source in a namespace, which needs the feature gate CrossNamespaceVolumeDataSource.",
		"Start the provisioner with --feature-gates=CrossNamespaceVolumeDataSource=true, or leave spec.dataSourceRef.namespace out for a source in the claim's own namespace."),
	SourceNotGranted: failedClaim("The claim names a source in another namespace, and no ReferenceGrant there allows it.",
		"The message names the necessary content of the ReferenceGrant. Create it in the namespace of the source; provisioning then continues by itself."),
	SourceMissing: failedClaim("The source of the claim, or an object that it refers to, does not exist.",
		"The message names the object. For a VolumeSnapshot, are the custom resources of snapshots installed? Provisioning continues by itself when the object is created."),
	SourceForbidden: failedClaim("The provisioner may not read the source of the claim.",
		"The message names the resource. Compare the role of the provisioner with deploy/rbac/csi-provisioner.yaml."),
	SourceNotReady: failedClaim("The source of the claim has no data that can be read yet: the claim is not bound, or the snapshot is not ready.",
		"kubectl describe the source. Provisioning continues by itself when it is ready."),
	SourceDeleting: failedClaim("The source of the claim is being deleted.",
		"Create the claim again with another source."),
	SourceOfOtherDriver: failedClaim("The source of the claim belongs to another CSI driver than its StorageClass.",
		"Create the claim again with a StorageClass of the driver that the message names."),
	SourceInvalid: failedClaim("The source of the claim, its volume and its class or content do not fit together.",
		"The message names the field and the value."),
	SourceLarger: failedClaim("The claim asks for less than its source has.",
		"Create the claim again with the size in the message, or more."),
	SourceModeDiffers: failedClaim("The claim has another volume mode than its source.",
		"Create the claim again with the volume mode of the source. For a snapshot, a user with the right to edit its VolumeSnapshotContent can allow it with the annotation in the message."),

	SourceUnprotected: silent("The source does not have the finalizer of the provisioner.",
		"Nothing to do."),
	SourceNotOurs: silent("The finalizer on the source belongs to the provisioner of another driver.",
		"If that driver is not installed any more, remove the finalizer by hand."),
	SourceInUse: silent("A volume is being created from the source, or a claim waits for one, so the source keeps its finalizer.",
		"Nothing to do. To delete the source at once, delete the claims in the message first."),
	SourceReleased: silent("No volume is being created from the source any more, so the provisioner's finalizer was removed.",
		"Nothing to do."),

	CreateAttributesMissing: failedClaim("The VolumeAttributesClass that the claim names does not exist.",
		"kubectl get volumeattributesclass. Create it; provisioning then continues by itself."),
	CreateAttributesForbidden: failedClaim("The provisioner may not read the VolumeAttributesClass that the claim names.",
		"Upstream's role lacks the rule. deploy/rbac/csi-provisioner.yaml has it: apiGroups [storage.k8s.io], resources [volumeattributesclasses], verbs [get]."),
	CreateAttributesOtherDriver: failedClaim("The VolumeAttributesClass that the claim names is for another driver.",
		"Name a VolumeAttributesClass of the driver of the StorageClass."),
}
