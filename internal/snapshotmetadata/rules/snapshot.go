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

	Volume string // handle of the target's volume; empty if its content does not say

	own, foreign, elsewhere bool
}

// Add adds a content. It returns true when the base is found: no other content changes the answer.
func (b *BaseCheck) Add(content *snapshotv1.VolumeSnapshotContent) (isFound bool) {
	if content.Spec.Driver != b.Driver || handleIn(content) != b.Handle {
		return b.own
	}
	if content.Spec.VolumeSnapshotRef.Namespace != b.Namespace {
		b.foreign = true
		return b.own
	}
	volume := VolumeOf(content)
	b.own, b.elsewhere = true, volume != "" && b.Volume != "" && volume != b.Volume
	return true
}

// handleIn returns the handle of a content. That of a static one is in its spec before the driver
// has answered.
func handleIn(content *snapshotv1.VolumeSnapshotContent) string {
	if content.Status != nil && ptr.Deref(content.Status.SnapshotHandle, "") != "" {
		return *content.Status.SnapshotHandle
	}
	return ptr.Deref(content.Spec.Source.SnapshotHandle, "")
}

// VolumeOf returns the handle of a content's volume; empty for a static content, which has none.
func VolumeOf(content *snapshotv1.VolumeSnapshotContent) string {
	return ptr.Deref(content.Spec.Source.VolumeHandle, "")
}

// Refusal refuses a handle that only snapshots of other namespaces have, and that of a snapshot of
// another volume.
func (b *BaseCheck) Refusal() *Refusal {
	switch {
	case b.foreign && !b.own:
		return refuse(codes.PermissionDenied,
			"the base snapshot is that of a VolumeSnapshot outside of namespace '%s'", b.Namespace)
	case b.elsewhere:
		return refuse(codes.InvalidArgument, "the base snapshot is of another volume than the target")
	}
	return nil
}

// ClassName returns the name of a snapshot's class; nil for none. That of the content counts, since
// the user of the namespace can change the other one, and the class names a secret.
func ClassName(snapshot *snapshotv1.VolumeSnapshot, content *snapshotv1.VolumeSnapshotContent) *string {
	if name := content.Spec.VolumeSnapshotClassName; name != nil {
		return name
	}
	return snapshot.Spec.VolumeSnapshotClassName
}

// CheckClass refuses a class of another driver, whose secret is not for this one.
func CheckClass(class *snapshotv1.VolumeSnapshotClass, driver string) *Refusal {
	if class.Driver != driver {
		return refuse(codes.InvalidArgument,
			"VolumeSnapshotClass '%s' does not belong to the CSI driver '%s'", class.Name, driver)
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
