package names

// Annotations on claims. The PV controller asks a provisioner for a volume with the first two; the scheduler picks a node
// with the third (external-provisioner.md AN-1 to AN-6).
const (
	AnnStorageProvisioner     = "volume.kubernetes.io/storage-provisioner"
	AnnBetaStorageProvisioner = "volume.beta.kubernetes.io/storage-provisioner"
	AnnSelectedNode           = "volume.kubernetes.io/selected-node"
	AnnAlphaSelectedNode      = "volume.alpha.kubernetes.io/selected-node"
	AnnMigratedTo             = "pv.kubernetes.io/migrated-to"
	AnnBetaStorageClass       = "volume.beta.kubernetes.io/storage-class"
	AnnBindCompleted          = "pv.kubernetes.io/bind-completed"
)

// Annotations on volumes (AN-7, AN-8, AN-9).
const (
	AnnProvisionedBy             = "pv.kubernetes.io/provisioned-by"
	AnnDeletionSecretName        = "volume.kubernetes.io/provisioner-deletion-secret-name"
	AnnDeletionSecretNamespace   = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
	AnnControllerModifySecret    = "volume.kubernetes.io/controller-modify-secret-name"
	AnnControllerModifySecretNS  = "volume.kubernetes.io/controller-modify-secret-namespace"
	AnnDefaultStorageClass       = "storageclass.kubernetes.io/is-default-class"
	FinalizerVolume              = "external-provisioner.volume.kubernetes.io/finalizer" // FI-1
	FinalizerPVCProtection       = "kubernetes.io/pvc-protection"
	FinalizerPVProtection        = "kubernetes.io/pv-protection"
	AttributeProvisionerIdentity = "storage.kubernetes.io/csiProvisionerIdentity" // AN-11, a key of volumeAttributes
)

// Keys of StorageClass parameters with the reserved prefix.
const (
	ParameterPrefix       = "csi.storage.k8s.io/"
	ParameterFSType       = ParameterPrefix + "fstype"
	ParameterPVCName      = ParameterPrefix + "pvc/name"
	ParameterPVCNamespace = ParameterPrefix + "pvc/namespace"
	ParameterPVName       = ParameterPrefix + "pv/name"
)
