package source

import (
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State has the API objects of a source. A nil pointer means that the object does not exist.
type State struct {
	Ref      Ref
	Claim    *corev1.PersistentVolumeClaim     // for a clone
	Volume   *corev1.PersistentVolume          // the volume of Claim; one of an in-tree plugin is translated to CSI
	Snapshot *snapshotv1.VolumeSnapshot        // for a restore
	Content  *snapshotv1.VolumeSnapshotContent // the content of Snapshot
	Grants   []Grant                           // in the namespace of the source, if [NeedsGrant]
	// Unread is the resource that could not be read; the zero value means that all were read.
	Unread Unread
}

// Unread is a resource that the API server does not serve, or that the provisioner has no
// permission to read.
type Unread struct {
	Resource  string // such as volumesnapshots.snapshot.storage.k8s.io; empty for no obstacle
	Forbidden bool   // else the API server does not serve the resource
}

// Object returns the object that gets the finalizer; an empty one when it does not exist.
func (s State) Object() metav1.Object {
	switch {
	case s.Claim != nil:
		return s.Claim
	case s.Snapshot != nil:
		return s.Snapshot
	}
	return &metav1.ObjectMeta{}
}

// Rules are the settings that the decisions depend on.
type Rules struct {
	Driver         string
	KeepVolumeMode bool // --prevent-volume-mode-conversion
	CrossNamespace bool // the feature gate CrossNamespaceVolumeDataSource
}
