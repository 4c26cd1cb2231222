package source

import (
	"fmt"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// restoreChecks are, in this order.
var restoreChecks = []func(*corev1.PersistentVolumeClaim, State, Rules) *verdict.Finding{
	snapshotExists, snapshotIsBound, contentFits, snapshotIsReady, restoreIsLargeEnough, restoreHasMode,
}

func restore(claim *corev1.PersistentVolumeClaim, s State, r Rules) (*csi.VolumeContentSource, *verdict.Finding) {
	for _, check := range restoreChecks {
		if finding := check(claim, s, r); finding != nil {
			return nil, finding
		}
	}
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: SnapshotHandle(s.Content)},
	}}, nil
}

// BoundContent returns the name of the content that a VolumeSnapshot is bound to; empty for none.
func BoundContent(vs *snapshotv1.VolumeSnapshot) string {
	if vs.Status == nil {
		return ""
	}
	return ptr.Deref(vs.Status.BoundVolumeSnapshotContentName, "")
}

// SnapshotHandle returns the driver's id of the snapshot; empty while it is not known.
func SnapshotHandle(content *snapshotv1.VolumeSnapshotContent) string {
	if content == nil || content.Status == nil {
		return ""
	}
	return ptr.Deref(content.Status.SnapshotHandle, "")
}

// snapshotExists is R-70. A snapshot that is being deleted can be restored while it has the
// finalizer, so that a restore that has begun goes on.
func snapshotExists(_ *corev1.PersistentVolumeClaim, s State, _ Rules) *verdict.Finding {
	switch {
	case s.Snapshot == nil:
		return missing(s.Ref.String(), "does not exist")
	case s.Snapshot.DeletionTimestamp != nil && !IsProtected(s.Snapshot, s.Ref):
		return refused(verdict.SourceDeleting, "%s is being deleted", s.Ref)
	}
	return nil
}

func snapshotIsBound(_ *corev1.PersistentVolumeClaim, s State, _ Rules) *verdict.Finding {
	if BoundContent(s.Snapshot) == "" {
		return refused(
			verdict.SourceNotReady, "%s is not bound to a VolumeSnapshotContent yet%s", s.Ref, failure(s.Snapshot),
		)
	}
	return nil
}

func contentFits(_ *corev1.PersistentVolumeClaim, s State, r Rules) *verdict.Finding {
	of := fmt.Sprintf("VolumeSnapshotContent %q of %s", BoundContent(s.Snapshot), s.Ref)
	if s.Content == nil {
		return missing(of, "does not exist")
	}
	switch ref := s.Content.Spec.VolumeSnapshotRef; {
	case ref.UID != s.Snapshot.UID || ref.Namespace != s.Snapshot.Namespace || ref.Name != s.Snapshot.Name:
		return refused(verdict.SourceInvalid, "%s is bound to another VolumeSnapshot", of)
	case s.Content.Spec.Driver != r.Driver:
		return otherDriver(of, s.Content.Spec.Driver, r)
	}
	return nil
}

func snapshotIsReady(_ *corev1.PersistentVolumeClaim, s State, _ Rules) *verdict.Finding {
	switch {
	case !ptr.Deref(s.Snapshot.Status.ReadyToUse, false):
		return refused(verdict.SourceNotReady, "%s is not ready to use yet%s", s.Ref, failure(s.Snapshot))
	case SnapshotHandle(s.Content) == "":
		return refused(
			verdict.SourceNotReady, "VolumeSnapshotContent %q of %s has no status.snapshotHandle yet", s.Content.Name,
			s.Ref,
		)
	}
	return nil
}

// failure returns the error in the status of a snapshot, to be appended to a message.
func failure(vs *snapshotv1.VolumeSnapshot) string {
	if vs.Status == nil || vs.Status.Error == nil || vs.Status.Error.Message == nil {
		return ""
	}
	return ": " + *vs.Status.Error.Message
}

// restoreIsLargeEnough is R-74. If the claim asks for more than the snapshot has, the driver
// expands the volume.
func restoreIsLargeEnough(claim *corev1.PersistentVolumeClaim, s State, _ Rules) *verdict.Finding {
	least := s.Snapshot.Status.RestoreSize
	asked := requested(claim)
	if least == nil || size.Compare(asked, *least) >= 0 {
		return nil
	}
	return &verdict.Finding{
		Reason: verdict.SourceLarger,
		Message: fmt.Sprintf("claim spec.resources.requests.storage: %s is less than the restore size %s of %s",
			asked.String(), least.String(), s.Ref),
		Fix: "Ask for that or more",
	}
}

// restoreHasMode is R-75.
func restoreHasMode(claim *corev1.PersistentVolumeClaim, s State, r Rules) *verdict.Finding {
	was, is := s.Content.Spec.SourceVolumeMode, claim.Spec.VolumeMode
	if !r.KeepVolumeMode || was == nil || is == nil || string(*was) == string(*is) {
		return nil
	}
	finding := refused(
		verdict.SourceModeDiffers, "claim spec.volumeMode: %s, and the source of %s has %s", *is, s.Ref, *was,
	)
	finding.Fix = fmt.Sprintf("Use the same mode, or allow the change with the annotation %s: \"true\" on "+
		"VolumeSnapshotContent %q",
		names.AnnAllowVolumeModeChange, s.Content.Name)
	value, found := s.Content.Annotations[names.AnnAllowVolumeModeChange]
	if !found {
		return finding
	}
	allowed, err := strconv.ParseBool(value)
	switch {
	case err != nil:
		finding.Message += fmt.Sprintf(
			"; the annotation %s is %q, which is neither true nor false", names.AnnAllowVolumeModeChange, value,
		)
	case !allowed:
		finding.Message += fmt.Sprintf("; the annotation %s forbids the change", names.AnnAllowVolumeModeChange)
	default:
		return nil
	}
	return finding
}

func requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

func mode(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	return ptr.Deref(m, corev1.PersistentVolumeFilesystem)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
