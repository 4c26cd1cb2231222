package source

import (
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/objects"
)

// State has the API objects of a source. A nil pointer means that the object does not exist.
type State struct {
	Ref      Ref
	Claim    *corev1.PersistentVolumeClaim     // for a clone
	Volume   *corev1.PersistentVolume          // the volume of Claim; one of an in-tree plugin is translated to CSI
	Snapshot *snapshotv1.VolumeSnapshot        // for a restore
	Content  *snapshotv1.VolumeSnapshotContent // the content of Snapshot
	Grants   []Grant                           // in the namespace of the source, if [NeedsGrant]
	// Cached says that the objects are those of the informer cache, which may be stale. The write that
	// protects such a source is made from the cached object, so the API server refuses it if the object
	// has changed or is another one of that name.
	Cached bool
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
	return &corev1.PersistentVolumeClaim{}
}

// With returns the source with another version of its object, as the API server has it.
func (s State) With(object metav1.Object) State {
	s.Cached = false
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		s.Claim = o
	case *snapshotv1.VolumeSnapshot:
		s.Snapshot = o
	}
	return s
}

// IsSame reports whether a source is the one that this process has protected: the very object, as it was
// then or older, or newer and still with the finalizer. An object with a finalizer is not replaced by
// another one of its name, so the view of it may be stale. Upstream's sweep removes the finalizers of all
// drivers: until the watch delivers that, a further restore begins without the protection.
func IsSame(protected, now State) bool {
	was, is := protected.Object(), now.Object()
	return was.GetUID() != "" && was.GetUID() == is.GetUID() &&
		(IsProtected(is, now.Ref) || !objects.IsNewer(is.GetResourceVersion(), was.GetResourceVersion()))
}

// Rules are the settings that the decisions depend on.
type Rules struct {
	Driver         string
	KeepVolumeMode bool // --prevent-volume-mode-conversion
	CrossNamespace bool // the feature gate CrossNamespaceVolumeDataSource
}
