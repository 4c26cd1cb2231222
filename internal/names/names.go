package names

// Annotations on claims. With the first two the PV controller requests a volume from a provisioner;
// with the third the scheduler selects a node (AN-1 to AN-6).
const (
	AnnStorageProvisioner     = "volume.kubernetes.io/storage-provisioner"
	AnnBetaStorageProvisioner = "volume.beta.kubernetes.io/storage-provisioner"
	AnnSelectedNode           = "volume.kubernetes.io/selected-node"
	AnnAlphaSelectedNode      = "volume.alpha.kubernetes.io/selected-node"
	AnnMigratedTo             = "pv.kubernetes.io/migrated-to"
	AnnBetaStorageClass       = "volume.beta.kubernetes.io/storage-class"
	AnnBindCompleted          = "pv.kubernetes.io/bind-completed"
	AnnBoundByController      = "pv.kubernetes.io/bound-by-controller" // on volumes, too
	AnnStorageResizer         = "volume.kubernetes.io/storage-resizer" // of a migrated volume: the resizer
)

// Annotations on volumes (AN-7, AN-8, AN-9).
const (
	AnnProvisionedBy             = "pv.kubernetes.io/provisioned-by"
	AnnDeletionSecretName        = "volume.kubernetes.io/provisioner-deletion-secret-name"
	AnnDeletionSecretNamespace   = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
	AnnControllerModifySecret    = "volume.kubernetes.io/controller-modify-secret-name"
	AnnControllerModifySecretNS  = "volume.kubernetes.io/controller-modify-secret-namespace"
	AnnDefaultStorageClass       = "storageclass.kubernetes.io/is-default-class"
	AnnPreResizeCapacity         = "volume.alpha.kubernetes.io/pre-resize-capacity"
	AnnBetaDefaultStorageClass   = "storageclass.beta.kubernetes.io/is-default-class"
	FinalizerInTree              = "kubernetes.io/pv-controller"
	FinalizerVolume              = "external-provisioner.volume.kubernetes.io/finalizer" // FI-1
	FinalizerPVCProtection       = "kubernetes.io/pvc-protection"
	FinalizerPVProtection        = "kubernetes.io/pv-protection"
	FinalizerVACProtection       = "kubernetes.io/vac-protection"
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

// JournalLeasePrefix begins the names of the Leases that have the journal of volume requests, before
// the name that sidecars make of the driver's.
const JournalLeasePrefix = "purser-intents-"

// LeaseUp is the Lease that `purser up` renews for all roles of its process.
const LeaseUp = "purser-up"

// SnapshotJournalLeasePrefix begins the names of the Leases that have the journal of CreateSnapshot calls,
// before the name that sidecars make of the driver's.
const SnapshotJournalLeasePrefix = "purser-snapshot-intents-"

// Ours, on the objects of the journal of volume requests.
const (
	AnnIntents     = "purser/intents"      // the unresolved requests; see internal/journal/rules
	AnnIntentsNode = "purser/intents-node" // the node of the instance, where each has one
	// AnnIntentsRepeated has the uids of claims whose request was sent more than once.
	AnnIntentsRepeated = "purser/intents-repeated"
	// AnnIntentsUnreadable is the text of a journal that could not be read and was skipped.
	AnnIntentsUnreadable = "purser/intents-unreadable"
	LabelManagedBy       = "app.kubernetes.io/managed-by"
	ManagedByPurser      = "purser"
)

// OwnPrefix begins the names of our annotations.
const OwnPrefix = "purser/"

// AnnTraceParent is on an object whose decisions are part of a trace: its context, as the W3C's traceparent.
const AnnTraceParent = OwnPrefix + "traceparent"

// AnnReason is on an event whose reason, which is upstream's, several decisions share: the reason of the
// decision, which docs/reasons.md explains.
const AnnReason = OwnPrefix + "reason"

// Ours, on PersistentVolumes: a released volume is made available again instead of being reclaimed
// by its policy. Any other value is the namespace and name of the claim that it is reserved for.
const (
	AnnReuse      = "purser/reuse"
	ReuseSameName = "same-name" // for the next claim with the name of the previous one
	ReuseAny      = "any"       // for any matching claim
)

// Ours, of the commands for the time after the first day.
const (
	LabelCheck = "purser/check" // on all objects of a check of a class: its name
	// GrowSecretType is the type of the Secret that has a StatefulSet while it is replaced.
	GrowSecretType = "purser/grow"
)

// Parameters that refer to secrets, in pairs of a name and a namespace.
const (
	ParameterSecretName                       = ParameterPrefix + "secret-name"
	ParameterSecretNamespace                  = ParameterPrefix + "secret-namespace"
	ParameterProvisionerSecretName            = ParameterPrefix + "provisioner-secret-name"
	ParameterProvisionerSecretNamespace       = ParameterPrefix + "provisioner-secret-namespace"
	ParameterControllerPublishSecretName      = ParameterPrefix + "controller-publish-secret-name"
	ParameterControllerPublishSecretNamespace = ParameterPrefix + "controller-publish-secret-namespace"
	ParameterNodeStageSecretName              = ParameterPrefix + "node-stage-secret-name"
	ParameterNodeStageSecretNamespace         = ParameterPrefix + "node-stage-secret-namespace"
	ParameterNodePublishSecretName            = ParameterPrefix + "node-publish-secret-name"
	ParameterNodePublishSecretNamespace       = ParameterPrefix + "node-publish-secret-namespace"
	ParameterControllerExpandSecretName       = ParameterPrefix + "controller-expand-secret-name"
	ParameterControllerExpandSecretNamespace  = ParameterPrefix + "controller-expand-secret-namespace"
	ParameterNodeExpandSecretName             = ParameterPrefix + "node-expand-secret-name"
	ParameterNodeExpandSecretNamespace        = ParameterPrefix + "node-expand-secret-namespace"
	ParameterControllerModifySecretName       = ParameterPrefix + "controller-modify-secret-name"
	ParameterControllerModifySecretNamespace  = ParameterPrefix + "controller-modify-secret-namespace"
)

// The deprecated spelling of four of the pairs, which is still passed to drivers.
const (
	OldParameterProvisionerSecretName            = "csiProvisionerSecretName"
	OldParameterProvisionerSecretNamespace       = "csiProvisionerSecretNamespace"
	OldParameterControllerPublishSecretName      = "csiControllerPublishSecretName"
	OldParameterControllerPublishSecretNamespace = "csiControllerPublishSecretNamespace"
	OldParameterNodeStageSecretName              = "csiNodeStageSecretName"
	OldParameterNodeStageSecretNamespace         = "csiNodeStageSecretNamespace"
	OldParameterNodePublishSecretName            = "csiNodePublishSecretName"
	OldParameterNodePublishSecretNamespace       = "csiNodePublishSecretNamespace"
)

// Parameters of our own (O-30, O-32). They are outside of the reserved prefix, since upstream
// refuses unknown keys with it; these keys upstream passes to the driver.
const (
	OwnParameterPrefix                  = OwnPrefix
	OwnParameterDeletionSecretName      = OwnParameterPrefix + "deletion-secret-name"
	OwnParameterDeletionSecretNamespace = OwnParameterPrefix + "deletion-secret-namespace"
	OwnParameterMinimumSize             = OwnParameterPrefix + "minimum-size"
)
