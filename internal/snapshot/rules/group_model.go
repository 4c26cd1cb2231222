package snapshotting

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// GroupVerdict is what [DecideGroup] answers.
type GroupVerdict = verdict.Verdict[GroupAction]

// GroupSettings are what the controller's decisions depend on besides the objects.
type GroupSettings struct {
	// SourceMode has each member's content say which mode its source volume has.
	SourceMode bool
}

// Source is a claim that the selector selects, and its volume, read live; nil if there is none.
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

// Group is the world around one VolumeGroupSnapshot.
type Group struct {
	GroupSettings
	Key      types.NamespacedName
	Snapshot *groupv1.VolumeGroupSnapshot        // nil: it does not exist
	Content  *groupv1.VolumeGroupSnapshotContent // [GroupContentName] of the group; nil: it does not exist
	// Unprotected are contents that refer to Key and [GroupLacksFinalizer]; only while there is no group.
	Unprotected []*groupv1.VolumeGroupSnapshotContent
	Class       *groupv1.VolumeGroupSnapshotClass  // that the group names; nil: there is none
	Defaults    []groupv1.VolumeGroupSnapshotClass // classes that are annotated as default
	Sources     []Source                           // what [Selector] selects; only while there is no content
	Members     []Member                           // one for each entry of the content's status
	// Owned are the names of all member VolumeSnapshots that exist, whatever the content says.
	Owned []string
	// Restoring are the claims without a volume whose source is a member.
	Restoring []string
}

// GroupAction is one thing to do. The interface is sealed.
//
//sumtype:decl
type GroupAction interface{ groupAction() }

type (
	// PrepareGroup adds the finalizer to the VolumeGroupSnapshot, and its class if Class is not
	// empty. One write.
	PrepareGroup struct{ Class string }
	// GroupCreateContent writes the content of a dynamic group.
	GroupCreateContent struct {
		Content *groupv1.VolumeGroupSnapshotContent
	}
	// GroupBindContent has a pre-provisioned content refer to the group by its uid, with the class if it
	// is not empty, and adds the content's finalizer.
	GroupBindContent struct{ Class string }
	// GroupProtectContent adds the content's finalizer.
	GroupProtectContent struct {
		Content *groupv1.VolumeGroupSnapshotContent
	}
	// GroupWriteStatus replaces the status of the VolumeGroupSnapshot.
	GroupWriteStatus struct {
		Status *groupv1.VolumeGroupSnapshotStatus
	}
	// CreateMember creates a member VolumeSnapshot, then its content, which refers to it by its uid,
	// and writes the first status of both. What exists already is left as it is.
	CreateMember struct {
		Snapshot       *snapshotv1.VolumeSnapshot
		Content        *snapshotv1.VolumeSnapshotContent
		ContentStatus  *snapshotv1.VolumeSnapshotContentStatus
		SnapshotStatus *snapshotv1.VolumeSnapshotStatus
	}
	// GroupMarkDeleting sets the annotation volumegroupsnapshot-being-deleted on the content.
	GroupMarkDeleting struct{}
	// GroupDeleteContent deletes the content.
	GroupDeleteContent struct{}
	// DeleteMember deletes a member VolumeSnapshot.
	DeleteMember struct{ Name string }
	// ReleaseGroup removes the finalizer of the VolumeGroupSnapshot.
	ReleaseGroup struct{}
)

func (PrepareGroup) groupAction()        {}
func (GroupCreateContent) groupAction()  {}
func (GroupBindContent) groupAction()    {}
func (GroupProtectContent) groupAction() {}
func (GroupWriteStatus) groupAction()    {}
func (CreateMember) groupAction()        {}
func (GroupMarkDeleting) groupAction()   {}
func (GroupDeleteContent) groupAction()  {}
func (DeleteMember) groupAction()        {}
func (ReleaseGroup) groupAction()        {}

// GroupContentName returns the name of the content that a group has or gets: the one that it is bound to
// or that it names, else the one that its uid makes (SN-N15).
func GroupContentName(g *groupv1.VolumeGroupSnapshot) string {
	switch {
	case g.Status != nil && ptr.Deref(g.Status.BoundVolumeGroupSnapshotContentName, "") != "":
		return *g.Status.BoundVolumeGroupSnapshotContentName
	case g.Spec.Source.VolumeGroupSnapshotContentName != nil:
		return *g.Spec.Source.VolumeGroupSnapshotContentName
	}
	return "groupsnapcontent-" + string(g.UID)
}

// MemberNames returns the names of the VolumeSnapshot and of the content for the snapshot of one
// volume of a group (SN-N15).
func MemberNames(group types.UID, volumeHandle string) (snapshot, content string) {
	sum := sha256.Sum256([]byte(string(group) + volumeHandle))
	return "snapshot-" + hex.EncodeToString(sum[:]), "snapcontent-" + hex.EncodeToString(sum[:])
}

// Selector returns which claims belong to a group: labels and expressions, both. A selector that
// would select all claims of the namespace is an error (SN-H1).
func Selector(g *groupv1.VolumeGroupSnapshot) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(g.Spec.Source.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.source.selector: %w", err)
	}
	if selector.Empty() {
		return nil, fmt.Errorf("spec.source.selector is empty and would select every claim of the namespace; " +
			"give it matchLabels or matchExpressions")
	}
	return selector, nil
}

// GroupIsReady reports whether all snapshots of a group can be restored.
func GroupIsReady(g *groupv1.VolumeGroupSnapshot) bool {
	return g.Status != nil && ptr.Deref(g.Status.ReadyToUse, false)
}

// GroupIsDefaultClass reports whether a class is annotated as default (SN-N12).
func GroupIsDefaultClass(class *groupv1.VolumeGroupSnapshotClass) bool {
	return class.Annotations[names.AnnDefaultGroupClass] == "true"
}

func isDynamic(g *groupv1.VolumeGroupSnapshot) bool { return g.Spec.Source.Selector != nil }

// groupHandle returns the handle of a group; empty when it is not known.
func groupHandle(c *groupv1.VolumeGroupSnapshotContent) string {
	if c.Status != nil && c.Status.VolumeGroupSnapshotHandle != nil {
		return *c.Status.VolumeGroupSnapshotHandle
	}
	if handles := c.Spec.Source.GroupSnapshotHandles; handles != nil {
		return handles.VolumeGroupSnapshotHandle
	}
	return ""
}

func isContentReady(c *groupv1.VolumeGroupSnapshotContent) bool {
	return c.Status != nil && ptr.Deref(c.Status.ReadyToUse, false)
}
