package snapshotting

import (
	"slices"
	"strings"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Groups says that this process follows groups: it does not where the gate is off, or the cluster does
	// not serve their kinds.
	Groups bool
	// Together is the driver whose csi-snapshotter and csi-provisioner run in this process, under its lease,
	// so that marks in memory take the place of some in the API server (FL-18, FL-19, FL-21); empty for none.
	Together string
}

// What a decision may ask for, each of the API server but ReadNodes.
const (
	ReadContent = "content"
	ReadGroup   = "group"   // of a member
	ReadVolume  = "volume"  // of the source
	ReadNodes   = "nodes"   // all of them
	ReadSources = "sources" // what [Selector] selects, and their volumes
	ReadClaim   = "claim"   // the source
	// ReadSharing is all contents that may have the handle of this name.
	ReadSharing = "sharing"
)

type (
	// Snapshot is the world around one VolumeSnapshot.
	Snapshot = State[
		*snapshotv1.VolumeSnapshot, *snapshotv1.VolumeSnapshotContent, *snapshotv1.VolumeSnapshotClass,
	]
	// Group is the world around one VolumeGroupSnapshot.
	Group = State[
		*groupv1.VolumeGroupSnapshot, *groupv1.VolumeGroupSnapshotContent, *groupv1.VolumeGroupSnapshotClass,
	]
)

// State is the world around one VolumeSnapshot or VolumeGroupSnapshot.
type State[O Requests, C Contents, L Classes] struct {
	Inputs
	Snapshot O // nil: it does not exist
	Content  C // [ContentName] of it; nil: it does not exist
	// Referring are the contents that refer to Key.
	Referring []C
	Class     L   // that the object names; nil: there is none
	Classes   []L // all of them, while it names none
}

// Inputs is what both kinds of [State] have.
type Inputs struct {
	Settings
	Key types.NamespacedName
	// Restoring are the claims without a volume whose source is the VolumeSnapshot, or a member, and the
	// calls and requests of a provisioner in this process that use it.
	Restoring []string

	Read []string // what was read because a decision asked for it

	// Of a VolumeSnapshot.

	// MayHold says that the protection of claims leads in this process, so that it keeps a claim in memory.
	// HoldsSince is for how long it has led.
	MayHold    bool
	HoldsSince time.Duration
	// Held says that the claim is kept in memory for this VolumeSnapshot.
	Held bool
	// Deleting says that the csi-snapshotter in this process knows that the content is being deleted.
	Deleting bool

	Claim *corev1.PersistentVolumeClaim // the source; nil: there is none
	// Volume is the one that the claim names, from the cache until it is read; nil for none, or where the
	// process does not cache volumes.
	Volume *corev1.PersistentVolume
	Nodes  []corev1.Node
	// Others are the other VolumeSnapshots of the claim.
	Others []*snapshotv1.VolumeSnapshot
	Group  *groupv1.VolumeGroupSnapshot // that the VolumeSnapshot is a member of; nil: there is none

	// Of a VolumeGroupSnapshot.

	Sources []Source
	Members []Member // one for each entry of the content's status
	// Owned are the names of all member VolumeSnapshots that exist, whatever the content says.
	Owned []string
}

// Source is a claim that a snapshot is taken of, and its volume, read live; nil if there is none.
type Source struct {
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume
}

// Member is one snapshot of a group: what the driver says of it, and its objects so far.
type Member struct {
	Info     groupv1.VolumeSnapshotInfo
	Snapshot *snapshotv1.VolumeSnapshot        // nil: it does not exist
	Content  *snapshotv1.VolumeSnapshotContent // nil: it does not exist
	// Volumes are those of the driver with the handle that the snapshot is of.
	Volumes []*corev1.PersistentVolume
}

// Action is one thing to do for a VolumeSnapshot or a VolumeGroupSnapshot. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// PrepareSnapshot adds finalizers to the object, and its class if Class is not empty. One write.
	PrepareSnapshot struct {
		Finalizers []string
		Class      string
	}
	// ProtectClaim adds the finalizer pvc-as-source-protection to the source.
	ProtectClaim struct{}
	// HoldClaim keeps the source in the memory of this process. If that is not possible any more, it is
	// ProtectClaim.
	HoldClaim struct{}
	// CreateContent writes the content of a dynamic snapshot. Content is a pointer of [Contents].
	CreateContent struct{ Content metav1.Object }
	// BindContent has a pre-provisioned content refer to the object by its uid, with the class if it is
	// not empty, and adds finalizers to the content.
	BindContent struct {
		Class      string
		Finalizers []string
	}
	// ProtectContent adds the content's finalizer. Content is a pointer of [Contents].
	ProtectContent struct {
		Content   metav1.Object
		Finalizer string
	}
	// WriteStatus replaces the status of the object.
	WriteStatus struct{ Status Status }
	// CreateMember creates a member VolumeSnapshot, then its content, which refers to it by its uid,
	// and writes the first status of both. What exists already is left as it is.
	CreateMember struct {
		Snapshot       *snapshotv1.VolumeSnapshot
		Content        *snapshotv1.VolumeSnapshotContent
		ContentStatus  *snapshotv1.VolumeSnapshotContentStatus
		SnapshotStatus *snapshotv1.VolumeSnapshotStatus
	}
	// MarkDeleting sets an annotation on the content: the object is being deleted.
	MarkDeleting struct{ Annotation string }
	// DeleteContent deletes the content. With InMemory, the csi-snapshotter in this process gets to know it
	// first, and the API server refuses if the content has changed: its deletion policy decides.
	DeleteContent struct{ InMemory bool }
	// DeleteMember deletes a member VolumeSnapshot.
	DeleteMember struct{ Name string }
	// ReleaseClaim removes the finalizer of the source.
	ReleaseClaim struct{}
	// EndHold ends HoldClaim.
	EndHold struct{}
	// ReleaseSnapshot removes finalizers of the object.
	ReleaseSnapshot struct{ Finalizers []string }
)

func (PrepareSnapshot) action() {}
func (ProtectClaim) action()    {}
func (CreateContent) action()   {}
func (BindContent) action()     {}
func (ProtectContent) action()  {}
func (WriteStatus) action()     {}
func (CreateMember) action()    {}
func (MarkDeleting) action()    {}
func (DeleteContent) action()   {}
func (DeleteMember) action()    {}
func (ReleaseClaim) action()    {}
func (HoldClaim) action()       {}
func (EndHold) action()         {}
func (ReleaseSnapshot) action() {}

// view is a [State] as the rules for both kinds read it.
type view struct {
	Inputs
	k         *kind
	object    *requestView // nil: it does not exist
	content   *contentView // nil: it does not exist
	referring []*contentView
	class     *classView
	classes   []*classView
	now       time.Time
}

func viewOf[O Requests, C Contents, L Classes](s State[O, C, L], now time.Time) view {
	return view{
		s.Inputs, kindOf(s.Snapshot), requestOf(s.Snapshot), contentOf(s.Content), eachOf(s.Referring, contentOf),
		classOf(s.Class), eachOf(s.Classes, classOf), now,
	}
}

// ContentName returns the name of the content that an object has or gets: the one that it is bound
// to or that it names, else the one that its uid makes (SN-N15, SN-D1). For a member of a group it is
// the one that the member's name makes: that content exists before the status says so.
func ContentName[O Requests](object O) string { return requestOf(object).contentName() }

func (o *requestView) contentName() string {
	switch {
	case ptr.Deref(o.status.Content, "") != "":
		return *o.status.Content
	case o.content != nil:
		return *o.content
	case o.member:
		return o.k.prefix + strings.TrimPrefix(o.Name, "snapshot-")
	}
	return o.k.prefix + string(o.UID)
}

// SourceClaim returns the name of the claim that a VolumeSnapshot is taken of; empty for none.
func SourceClaim(vs *snapshotv1.VolumeSnapshot) string {
	return ptr.Deref(vs.Spec.Source.PersistentVolumeClaimName, "")
}

// IsReady reports whether the snapshots of an object can be restored.
func IsReady[O Requests](object O) bool { return ptr.Deref(StatusOf(object).Ready, false) }

// NeedsClaim reports whether a VolumeSnapshot needs the claim that it is taken of: until it is ready.
func NeedsClaim(vs *snapshotv1.VolumeSnapshot) bool { return SourceClaim(vs) != "" && !IsReady(vs) }

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

// namesIt reports whether a content refers to an object by namespace and name, and refersTo whether
// by uid as well.
func (c *contentView) namesIt(o *requestView) bool {
	return c.ref.Namespace == o.Namespace && c.ref.Name == o.Name
}

func (c *contentView) refersTo(o *requestView) bool {
	return c != nil && c.namesIt(o) && c.ref.UID == o.UID
}

func isGroupMember(vs *snapshotv1.VolumeSnapshot) bool {
	return slices.Contains(vs.Finalizers, names.FinalizerSnapshotInGroup) ||
		vs.Status != nil && vs.Status.VolumeGroupSnapshotName != nil
}

// GroupOf returns the name of the group that a VolumeSnapshot is a member of; empty for none, and
// while it is not known.
func GroupOf(vs *snapshotv1.VolumeSnapshot) string {
	if !isGroupMember(vs) {
		return ""
	}
	if vs.Status != nil && vs.Status.VolumeGroupSnapshotName != nil {
		return *vs.Status.VolumeGroupSnapshotName
	}
	for _, owner := range vs.OwnerReferences {
		if owner.Kind == "VolumeGroupSnapshot" {
			return owner.Name
		}
	}
	return ""
}

// IsDynamic reports whether an object is taken of what its spec selects, and not of a content.
func IsDynamic[O Requests](object O) bool { return requestOf(object).dynamic }
