package snapshotting

import (
	"strings"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/verdict"
)

// ContentVerdict is what [DecideContent] answers.
type ContentVerdict = verdict.Verdict[ContentAction]

// Naming is how a snapshot is named in the backend (SN-F4).
type Naming struct {
	Prefix string
	Length int // of the uid without dashes; -1 for the whole uid
}

// Name returns the name of the snapshot for a VolumeSnapshot.
func (n Naming) Name(uid types.UID) string {
	if n.Length < 0 {
		return n.Prefix + "-" + string(uid)
	}
	short := strings.ReplaceAll(string(uid), "-", "")
	return n.Prefix + "-" + short[:min(n.Length, len(short))]
}

// ContentSettings are what the sidecar's decisions depend on besides the objects.
type ContentSettings struct {
	Driver        string
	Naming        Naming
	Lists         bool // the driver has LIST_SNAPSHOTS
	ExtraMetadata bool // --extra-create-metadata
	// Node has only contents be served whose snapshots are taken on this node (--node-deployment);
	// empty for all.
	Node string
	// Journal has calls be recorded in the journal of this process, in place of the annotation
	// volumesnapshot-being-created (FL-18). Groups keep the annotation.
	Journal bool
}

type (
	// ContentSnapshot is the world around one VolumeSnapshotContent.
	ContentSnapshot = ContentState[*snapshotv1.VolumeSnapshotContent, *snapshotv1.VolumeSnapshotClass]
	// GroupContent is the world around one VolumeGroupSnapshotContent.
	GroupContent = ContentState[*groupv1.VolumeGroupSnapshotContent, *groupv1.VolumeGroupSnapshotClass]
)

// ContentState is the world around the content of a VolumeSnapshot or VolumeGroupSnapshot.
type ContentState[C Contents, L Classes] struct {
	ContentSettings
	Content C // nil: it does not exist
	Class   L // that the content names; nil: the cache does not have it
	ContentInputs
}

// ContentInputs is what both kinds of [ContentState] have.
type ContentInputs struct {
	NotBefore time.Time // when the next attempt after a failure is due
	// Asked is when the driver last said that the snapshot is not ready; zero for never.
	Asked time.Time
	// Recorded says that the journal has a call that creates the snapshot, whose outcome is not known.
	Recorded bool
	// Sharing has all contents that existed when this one became [IsRemovable], or later; nil before
	// they are read.
	Sharing *Sharing
}

// Sharing are the other contents of the driver that name a snapshot, or a group or one of its
// snapshots.
type Sharing struct {
	Contents []*snapshotv1.VolumeSnapshotContent
	Groups   []*groupv1.VolumeGroupSnapshotContent
}

// ContentAction is one thing to do for a content of either kind. The interface is sealed.
//
//sumtype:decl
type ContentAction interface{ contentAction() }

type (
	// ClearCreating removes an annotation once the outcome of a call that creates is known.
	ClearCreating struct{ Annotation string }
	// MarkCreating sets the annotation for a call of the journal whose outcome is not known, and then
	// resolves its entry.
	MarkCreating struct{ Annotation string }
	// ResolveCall resolves the entry of the journal: the outcome of the call is known, and the status has
	// it.
	ResolveCall struct{}
	// CreateSnapshot asks the driver for a snapshot, or a group of them. What follows is for
	// [AfterCreate] to say.
	CreateSnapshot struct {
		Name       string
		Volumes    []string
		Parameters map[string]string
		Secret     types.NamespacedName // zero for none
		// Mark is the annotation volumesnapshot-being-created, or that of a group, if the content lacks it.
		// It is written when the secret is read and nothing but the driver can refuse the call any more
		// (SN-N7, SN-N9, SN-A5): a content with the annotation is deleted only after the outcome of a call.
		Mark string
		// Record has the call be recorded in the journal before it, in place of the annotation (FL-30).
		Record bool
	}
	// FindSnapshot asks the driver about a snapshot, or a group and its members. What follows is for
	// [AfterFind] to say.
	FindSnapshot struct {
		Handle    string
		Snapshots []string
		Secret    types.NamespacedName
	}
	// DeleteSnapshot asks the driver. What follows is for [AfterDelete] to say.
	DeleteSnapshot struct {
		Handle    string
		Snapshots []string
		Secret    types.NamespacedName
	}
	// WriteContentStatus replaces the status.
	WriteContentStatus struct{ Status ContentStatus }
	// ReleaseContent removes the finalizer.
	ReleaseContent struct{ Finalizer string }
)

func (ClearCreating) contentAction()      {}
func (MarkCreating) contentAction()       {}
func (ResolveCall) contentAction()        {}
func (CreateSnapshot) contentAction()     {}
func (FindSnapshot) contentAction()       {}
func (DeleteSnapshot) contentAction()     {}
func (WriteContentStatus) contentAction() {}
func (ReleaseContent) contentAction()     {}

// Failure is how a call to the driver failed, or why it was not made.
type Failure = csispec.Failure

// Answer is what a driver says of one snapshot or group. An answer without one has the zero value.
type Answer struct {
	Handle    string
	Ready     bool
	Size      int64     // of a snapshot
	Created   time.Time // zero when the driver does not say
	Snapshots []groupv1.VolumeSnapshotInfo
}

// IsPending reports whether the driver has the snapshot and is still processing it.
func (a Answer) IsPending() bool { return a.Handle != "" && !a.Ready }

// sidecarView is a [ContentState] as the rules for both kinds read it.
type sidecarView struct {
	ContentSettings
	ContentInputs
	k       *kind
	content *contentView // nil: it does not exist
	class   *classView
	now     time.Time
}

func sidecarViewOf[C Contents, L Classes](s ContentState[C, L], now time.Time) sidecarView {
	return sidecarView{
		s.ContentSettings, s.ContentInputs, kindOf(s.Content), contentOf(s.Content), classOf(s.Class), now,
	}
}

func (c *contentView) isReady() bool { return ptr.Deref(c.status.Ready, false) }

// secret is the one for the calls that create and delete, which the snapshot-controller wrote down
// (SN-N10).
func (c *contentView) secret() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Annotations[c.k.secretNamespace], Name: c.Annotations[c.k.secretName]}
}

func has(annotations map[string]string, key string) bool {
	_, ok := annotations[key]
	return ok
}
