package snapshotter

import (
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"
)

// gateGroups enables volume group snapshots (SN-F9).
const gateGroups featuregate.Feature = "CSIVolumeGroupSnapshot"

// enabledGroups is the older form of the gate (SN-F26).
const enabledGroups = "enable-volume-group-snapshots"

// groupKinds are what the API server must serve for groups.
var groupKinds = []schema.GroupVersionKind{
	groupv1.SchemeGroupVersion.WithKind("VolumeGroupSnapshot"),
	groupv1.SchemeGroupVersion.WithKind("VolumeGroupSnapshotContent"),
	groupv1.SchemeGroupVersion.WithKind("VolumeGroupSnapshotClass"),
}
