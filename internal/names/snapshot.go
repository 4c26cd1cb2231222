package names

// Finalizers of VolumeSnapshots, their contents and the claims that they are taken of (SN-N1 to
// SN-N5).
const (
	FinalizerSnapshotContent = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
	FinalizerSnapshotBound   = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
	FinalizerSnapshotSource  = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
	FinalizerSnapshotInGroup = "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection"
	FinalizerSnapshotClaim   = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
)

// Annotations of VolumeSnapshotContents and of classes (SN-N7 to SN-N12).
const (
	// AnnSnapshotBeingCreated is on a content from before CreateSnapshot until its outcome is known.
	AnnSnapshotBeingCreated = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
	// AnnSnapshotBeingDeleted is on a content whose VolumeSnapshot is being deleted.
	AnnSnapshotBeingDeleted            = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
	AnnSnapshotDeletionSecretName      = "snapshot.storage.kubernetes.io/deletion-secret-name"
	AnnSnapshotDeletionSecretNamespace = "snapshot.storage.kubernetes.io/deletion-secret-namespace"
	AnnGroupSnapshotHandle             = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle"
	AnnDefaultSnapshotClass            = "snapshot.storage.kubernetes.io/is-default-class"
)

// SnapshotGroup is the API group of VolumeSnapshots.
const SnapshotGroup = "snapshot.storage.k8s.io"

// Parameters of a VolumeSnapshotClass that name secrets, which the driver does not get (SN-P1).
const (
	ParameterSnapshotterSecretName           = "csi.storage.k8s.io/snapshotter-secret-name"
	ParameterSnapshotterSecretNamespace      = "csi.storage.k8s.io/snapshotter-secret-namespace"
	ParameterSnapshotterListSecretName       = "csi.storage.k8s.io/snapshotter-list-secret-name"
	ParameterSnapshotterListSecretNamespace  = "csi.storage.k8s.io/snapshotter-list-secret-namespace"
	ParameterGroupSnapshotterSecretName      = "csi.storage.k8s.io/group-snapshotter-secret-name"
	ParameterGroupSnapshotterSecretNamespace = "csi.storage.k8s.io/group-snapshotter-secret-namespace"
	ParameterGroupSnapshotterGetName         = "csi.storage.k8s.io/group-snapshotter-get-secret-name"
	ParameterGroupSnapshotterGetNamespace    = "csi.storage.k8s.io/group-snapshotter-get-secret-namespace"
)

// Parameters of CreateSnapshot that tell the driver of the objects (SN-P3), with
// --extra-create-metadata.
const (
	ParameterSnapshotName        = "csi.storage.k8s.io/volumesnapshot/name"
	ParameterSnapshotNamespace   = "csi.storage.k8s.io/volumesnapshot/namespace"
	ParameterSnapshotContentName = "csi.storage.k8s.io/volumesnapshotcontent/name"
)
