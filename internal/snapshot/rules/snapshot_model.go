package snapshotting

import (
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// Verdict is what [DecideSnapshot] answers.
type Verdict = verdict.Verdict[Action]

// Settings are what the controller's decisions depend on besides the objects.
type Settings struct {
	// SourceMode has the content say which mode the source volume has
	// (--prevent-volume-mode-conversion).
	SourceMode bool
	// Distributed has the sidecar on a node of the volume take the snapshot
	// (--enable-distributed-snapshotting).
	Distributed bool
}

// Snapshot is the world around one VolumeSnapshot.
type Snapshot struct {
	Settings
	Key      types.NamespacedName
	Snapshot *snapshotv1.VolumeSnapshot        // nil: it does not exist
	Content  *snapshotv1.VolumeSnapshotContent // [ContentName] of the VolumeSnapshot; nil: it does not exist
	// Unprotected are contents that refer to Key and [LacksFinalizer].
	Unprotected []*snapshotv1.VolumeSnapshotContent
	Class       *snapshotv1.VolumeSnapshotClass  // that the VolumeSnapshot names; nil: there is none
	Defaults    []snapshotv1.VolumeSnapshotClass // classes that are annotated as default
	Claim       *corev1.PersistentVolumeClaim    // the source; nil: there is none
	Volume      *corev1.PersistentVolume         // that the claim names, read live; nil: there is none
	Nodes       []corev1.Node                    // all of them, where Distributed needs them
	// Others are the names of the other VolumeSnapshots of the claim that are not ready.
	Others []string
	// Group says how it stands with the group that the VolumeSnapshot is a member of.
	Group GroupState
	// Restoring are the claims without a volume whose source is this VolumeSnapshot.
	Restoring []string
}

// Action is one thing to do. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// PrepareSnapshot adds finalizers to the VolumeSnapshot, and its class if Class is not empty.
	// One write.
	PrepareSnapshot struct {
		Finalizers []string
		Class      string
	}
	// ProtectClaim adds the finalizer pvc-as-source-protection to the source.
	ProtectClaim struct{}
	// CreateContent writes the content of a dynamic snapshot.
	CreateContent struct {
		Content *snapshotv1.VolumeSnapshotContent
	}
	// BindContent has a pre-provisioned content refer to the VolumeSnapshot by its uid, with the
	// class if it is not empty.
	BindContent struct{ Class string }
	// ProtectContent adds the content's finalizer.
	ProtectContent struct {
		Content *snapshotv1.VolumeSnapshotContent
	}
	// WriteStatus replaces the status of the VolumeSnapshot.
	WriteStatus struct {
		Status *snapshotv1.VolumeSnapshotStatus
	}
	// MarkDeleting sets the annotation volumesnapshot-being-deleted on the content.
	MarkDeleting struct{}
	// DeleteContent deletes the content.
	DeleteContent struct{}
	// ReleaseClaim removes the finalizer of the source.
	ReleaseClaim struct{}
	// ReleaseSnapshot removes finalizers of the VolumeSnapshot.
	ReleaseSnapshot struct{ Finalizers []string }
)

func (PrepareSnapshot) action() {}
func (ProtectClaim) action()    {}
func (CreateContent) action()   {}
func (BindContent) action()     {}
func (ProtectContent) action()  {}
func (WriteStatus) action()     {}
func (MarkDeleting) action()    {}
func (DeleteContent) action()   {}
func (ReleaseClaim) action()    {}
func (ReleaseSnapshot) action() {}

// ContentName returns the name of the content that a VolumeSnapshot has or gets: the one that it is
// bound to or that it names, else the one that its uid makes (SN-N15, SN-D1). For a member of a
// group it is the one that the member's name makes: that content exists before the status says so.
func ContentName(vs *snapshotv1.VolumeSnapshot) string {
	switch {
	case vs.Status != nil && ptr.Deref(vs.Status.BoundVolumeSnapshotContentName, "") != "":
		return *vs.Status.BoundVolumeSnapshotContentName
	case vs.Spec.Source.VolumeSnapshotContentName != nil:
		return *vs.Spec.Source.VolumeSnapshotContentName
	case isGroupMember(vs):
		return "snapcontent-" + strings.TrimPrefix(vs.Name, "snapshot-")
	}
	return "snapcontent-" + string(vs.UID)
}

// SourceClaim returns the name of the claim that a VolumeSnapshot is taken of; empty for none.
func SourceClaim(vs *snapshotv1.VolumeSnapshot) string {
	return ptr.Deref(vs.Spec.Source.PersistentVolumeClaimName, "")
}

// IsReady reports whether a VolumeSnapshot can be restored.
func IsReady(vs *snapshotv1.VolumeSnapshot) bool {
	return vs.Status != nil && ptr.Deref(vs.Status.ReadyToUse, false)
}

// NeedsClaim reports whether a VolumeSnapshot needs the claim that it is taken of: until it is ready.
func NeedsClaim(vs *snapshotv1.VolumeSnapshot) bool { return SourceClaim(vs) != "" && !IsReady(vs) }

// IsDefaultClass reports whether a class is annotated as default (SN-N12).
func IsDefaultClass(class *snapshotv1.VolumeSnapshotClass) bool {
	return class.Annotations[names.AnnDefaultSnapshotClass] == "true"
}

// RestoredFrom returns the VolumeSnapshot that a claim is a restore of, whichever field names it
// (SN-H19).
func RestoredFrom(claim *corev1.PersistentVolumeClaim) (types.NamespacedName, bool) {
	if ref := claim.Spec.DataSourceRef; ref != nil && ref.Kind == "VolumeSnapshot" &&
		ptr.Deref(ref.APIGroup, "") == names.SnapshotGroup {
		namespace := ptr.Deref(ref.Namespace, "")
		if namespace == "" {
			namespace = claim.Namespace
		}
		return types.NamespacedName{Namespace: namespace, Name: ref.Name}, true
	}
	if ref := claim.Spec.DataSource; ref != nil && ref.Kind == "VolumeSnapshot" &&
		ptr.Deref(ref.APIGroup, "") == names.SnapshotGroup {
		return types.NamespacedName{Namespace: claim.Namespace, Name: ref.Name}, true
	}
	return types.NamespacedName{}, false
}

// refersTo reports whether a content belongs to a VolumeSnapshot: by namespace, name and uid.
func refersTo(c *snapshotv1.VolumeSnapshotContent, vs *snapshotv1.VolumeSnapshot) bool {
	return c != nil && namesIt(c, vs) && c.Spec.VolumeSnapshotRef.UID == vs.UID
}

func namesIt(c *snapshotv1.VolumeSnapshotContent, vs *snapshotv1.VolumeSnapshot) bool {
	return c.Spec.VolumeSnapshotRef.Namespace == vs.Namespace && c.Spec.VolumeSnapshotRef.Name == vs.Name
}

func isGroupMember(vs *snapshotv1.VolumeSnapshot) bool {
	return slices.Contains(vs.Finalizers, names.FinalizerSnapshotInGroup) ||
		vs.Status != nil && vs.Status.VolumeGroupSnapshotName != nil
}

// groupName returns the name of the group that a VolumeSnapshot is a member of; nil while it is not
// known.
func groupName(vs *snapshotv1.VolumeSnapshot) *string {
	if vs.Status != nil && vs.Status.VolumeGroupSnapshotName != nil {
		return vs.Status.VolumeGroupSnapshotName
	}
	for i := range vs.OwnerReferences {
		if vs.OwnerReferences[i].Kind == "VolumeGroupSnapshot" {
			return &vs.OwnerReferences[i].Name
		}
	}
	return nil
}

// GroupOf returns the name of the group that a VolumeSnapshot is a member of; empty for none.
func GroupOf(vs *snapshotv1.VolumeSnapshot) string {
	if !isGroupMember(vs) {
		return ""
	}
	return ptr.Deref(groupName(vs), "")
}
