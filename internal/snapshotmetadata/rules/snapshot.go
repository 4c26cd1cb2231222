package rules

import (
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
)

// ContentOf returns the name of the VolumeSnapshotContent of a VolumeSnapshot that is ready. key is
// its name; the snapshot is nil if it does not exist.
func ContentOf(key types.NamespacedName, snapshot *snapshotv1.VolumeSnapshot) (string, *Refusal) {
	switch {
	case snapshot == nil:
		return "", refuse(codes.NotFound, "VolumeSnapshot not found '%s'", key)
	case snapshot.Status == nil || !ptr.Deref(snapshot.Status.ReadyToUse, false): // CB-H2
		return "", refuse(codes.Unavailable, "the VolumeSnapshot is not yet ready, name: %s", key.Name)
	case ptr.Deref(snapshot.Status.BoundVolumeSnapshotContentName, "") == "":
		return "", refuse(codes.Unavailable,
			"boundVolumeSnapshotContentName is not set in VolumeSnapshot status, name: %s", key.Name)
	}
	return *snapshot.Status.BoundVolumeSnapshotContentName, nil
}

// HandleOf returns the CSI handle of a snapshot of the driver. The content is nil if it does not
// exist.
func HandleOf(
	snapshot *snapshotv1.VolumeSnapshot, content *snapshotv1.VolumeSnapshotContent, driver string,
) (string, *Refusal) {
	name := ptr.Deref(snapshot.Status.BoundVolumeSnapshotContentName, "")
	switch {
	case content == nil:
		return "", refuse(codes.NotFound, "VolumeSnapshotContent not found '%s'", name)
	case content.Status == nil || !ptr.Deref(content.Status.ReadyToUse, false): // CB-H2
		return "", refuse(codes.Unavailable, "the VolumeSnapshotContent is not yet ready, name: %s", name)
	case ptr.Deref(content.Status.SnapshotHandle, "") == "":
		return "", refuse(codes.Unavailable,
			"snapshotHandle is not set in VolumeSnapshotContent status, name: %s", name)
	case content.Spec.Driver != driver:
		return "", refuse(codes.InvalidArgument,
			"VolumeSnapshot '%s' does not belong to the CSI driver '%s'", snapshot.Name, driver)
	case !isOf(content, snapshot):
		return "", refuse(codes.Unavailable,
			"VolumeSnapshotContent '%s' is not bound to VolumeSnapshot '%s'", name, snapshot.Name)
	}
	return *content.Status.SnapshotHandle, nil
}

// isOf reports whether the content names the snapshot. Upstream trusts the name in the snapshot's
// status, which would open the snapshots of other namespaces to writers of that status.
func isOf(content *snapshotv1.VolumeSnapshotContent, snapshot *snapshotv1.VolumeSnapshot) bool {
	of := content.Spec.VolumeSnapshotRef
	return of.Namespace == snapshot.Namespace && of.Name == snapshot.Name && (of.UID == "" || of.UID == snapshot.UID)
}

// BaseCheck collects to whom the handle of a delta's base belongs. A handle that no content has is
// passed to the driver: a backup program may have deleted the VolumeSnapshot, and kept only the
// handle (CB-12, CB-H4).
type BaseCheck struct {
	Handle, Driver, Namespace string

	own, foreign bool
}

// Add adds a content.
func (b *BaseCheck) Add(content *snapshotv1.VolumeSnapshotContent) {
	if content.Spec.Driver != b.Driver || content.Status == nil ||
		ptr.Deref(content.Status.SnapshotHandle, "") != b.Handle {
		return
	}
	if content.Spec.VolumeSnapshotRef.Namespace == b.Namespace {
		b.own = true
	} else {
		b.foreign = true
	}
}

// Refusal refuses a handle that only snapshots of other namespaces have.
func (b *BaseCheck) Refusal() *Refusal {
	if b.foreign && !b.own {
		return refuse(codes.PermissionDenied,
			"the base snapshot is that of a VolumeSnapshot outside of namespace '%s'", b.Namespace)
	}
	return nil
}

// DefaultClass returns the only default class of the driver. A driver without a default class is
// asked without a secret; upstream refuses the request then (CB-H1).
func DefaultClass(
	classes []snapshotv1.VolumeSnapshotClass, driver string,
) (*snapshotv1.VolumeSnapshotClass, *Refusal) {
	var found *snapshotv1.VolumeSnapshotClass
	for i := range classes {
		if classes[i].Driver != driver || classes[i].Annotations[names.AnnDefaultSnapshotClass] != "true" {
			continue
		}
		if found != nil {
			return nil, refuse(codes.Unavailable,
				"multiple default VolumeSnapshotClasses are set for the CSI driver '%s'", driver)
		}
		found = &classes[i]
	}
	return found, nil
}

// SecretOf returns the secret for the calls about a snapshot; the zero value for none. The class
// may be nil.
func SecretOf(
	class *snapshotv1.VolumeSnapshotClass, snapshot types.NamespacedName, content string,
) (types.NamespacedName, *Refusal) {
	if class == nil {
		return types.NamespacedName{}, nil
	}
	ref, problem := secretref.Snapshotter(class.Parameters, secretref.SnapshotScope{
		Snapshot: snapshot, Content: content,
	})
	if problem != nil {
		return types.NamespacedName{}, refuse(codes.Unavailable,
			"invalid snapshotter secret parameters in VolumeSnapshotClass: %s: %s %s",
			class.Name, problem.Parameter, problem.Text)
	}
	return ref, nil
}
