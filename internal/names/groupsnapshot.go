package names

// GroupSnapshotGroup is the API group of VolumeGroupSnapshots (SN-C2).
const GroupSnapshotGroup = "groupsnapshot.storage.k8s.io"

// Finalizers of VolumeGroupSnapshots and their contents (SN-N6).
const (
	FinalizerGroupSnapshot = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection"
	FinalizerGroupContent  = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection"
)

// Annotations of VolumeGroupSnapshotContents and of their classes (SN-N9, SN-N10, SN-N12).
const (
	// AnnGroupBeingCreated is on a content from before CreateVolumeGroupSnapshot until its outcome is
	// known.
	AnnGroupBeingCreated = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created"
	// AnnGroupBeingDeleted is on a content whose VolumeGroupSnapshot is being deleted.
	AnnGroupBeingDeleted            = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted"
	AnnGroupDeletionSecretName      = "groupsnapshot.storage.kubernetes.io/deletion-secret-name"
	AnnGroupDeletionSecretNamespace = "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace"
	AnnDefaultGroupClass            = "groupsnapshot.storage.kubernetes.io/is-default-class"
)

// LabelSnapshotNode is on a content whose snapshot the sidecar on the node of that name takes
// (SN-N13).
const LabelSnapshotNode = "snapshot.storage.kubernetes.io/managed-by"

// Parameters of CreateVolumeGroupSnapshot that tell the driver of the objects (SN-P3), with
// --extra-create-metadata.
const (
	ParameterGroupSnapshotName        = "csi.storage.k8s.io/volumegroupsnapshot/name"
	ParameterGroupSnapshotNamespace   = "csi.storage.k8s.io/volumegroupsnapshot/namespace"
	ParameterGroupSnapshotContentName = "csi.storage.k8s.io/volumegroupsnapshotcontent/name"
)
