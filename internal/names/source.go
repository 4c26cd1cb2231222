package names

// Finalizers on the sources of volumes (FI-2, FI-3). The second one is not the snapshotter's
// finalizer of nearly the same name.
const (
	FinalizerCloneSource   = "provisioner.storage.kubernetes.io/cloning-protection"
	FinalizerRestoreSource = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"
)

// AnnAllowVolumeModeChange is on a VolumeSnapshotContent that may be restored with another volume
// mode than its source had (AN-10).
const AnnAllowVolumeModeChange = "snapshot.storage.kubernetes.io/allow-volume-mode-change"

// GatewayGroup is the API group of ReferenceGrants.
const GatewayGroup = "gateway.networking.k8s.io"
