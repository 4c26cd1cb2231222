package snapshotting

import (
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// ContentVerdict is what [DecideContent] and [DecideGroupContent] answer.
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
}

// ContentSnapshot is the world around one VolumeSnapshotContent.
type ContentSnapshot struct {
	ContentSettings
	Content   *snapshotv1.VolumeSnapshotContent // nil: it does not exist
	Class     *snapshotv1.VolumeSnapshotClass   // that the content names; nil: the cache does not have it
	NotBefore time.Time                         // when the next attempt after a failure is due
	// when the driver last said that the snapshot is not ready; zero for never
	Asked time.Time
	// SharingRead says that SameHandle has all contents that existed when this one became
	// [IsRemovable], or later.
	SharingRead bool
	SameHandle  []*snapshotv1.VolumeSnapshotContent // the other contents of the driver with this handle
}

// ContentAction is one thing to do for a content of either kind. The interface is sealed.
//
//sumtype:decl
type ContentAction interface{ contentAction() }

type (
	// ClearCreating removes the annotation volumesnapshot-being-created, or that of a group, once the
	// outcome is known.
	ClearCreating struct{}
	// CreateSnapshot asks the driver. What follows is for [AfterCreate] to say.
	CreateSnapshot struct {
		Name, SourceVolume string
		Parameters         map[string]string
		Secret             types.NamespacedName // zero for none
		// Mark says that the content lacks the annotation volumesnapshot-being-created. It is written
		// when the secret is read and nothing but the driver can refuse the call any more (SN-N7,
		// SN-A5): a content with the annotation is deleted only after the outcome of a call.
		Mark bool
	}
	// FindSnapshot asks the driver with ListSnapshots. What follows is for [AfterFind] to say.
	FindSnapshot struct {
		Handle string
		Secret types.NamespacedName
	}
	// ListSameHandle lists the contents live. [AfterList] says what follows.
	ListSameHandle struct{ Handle string }
	// DeleteSnapshot asks the driver. What follows is for [AfterDelete] to say.
	DeleteSnapshot struct {
		Handle string
		Secret types.NamespacedName
	}
	// WriteContentStatus replaces the status.
	WriteContentStatus struct {
		Status *snapshotv1.VolumeSnapshotContentStatus
	}
	// ReleaseContent removes the finalizer.
	ReleaseContent struct{}
)

func (ClearCreating) contentAction()      {}
func (CreateSnapshot) contentAction()     {}
func (FindSnapshot) contentAction()       {}
func (ListSameHandle) contentAction()     {}
func (DeleteSnapshot) contentAction()     {}
func (WriteContentStatus) contentAction() {}
func (ReleaseContent) contentAction()     {}

// Failure is how a call to the driver failed, or why it was not made.
type Failure = csispec.Failure

// Answer is what a driver says of one snapshot. An answer without a snapshot has the zero value.
type Answer struct {
	Handle  string
	Ready   bool
	Size    int64
	Created time.Time // zero when the driver does not say
}

// IsPending reports whether the driver has the snapshot and is still processing it.
func (a Answer) IsPending() bool { return a.Handle != "" && !a.Ready }

func isReady(c *snapshotv1.VolumeSnapshotContent) bool {
	return c.Status != nil && ptr.Deref(c.Status.ReadyToUse, false)
}

// handle returns the snapshot's handle; empty when it is not known.
func handle(c *snapshotv1.VolumeSnapshotContent) string {
	if c.Status != nil && c.Status.SnapshotHandle != nil {
		return *c.Status.SnapshotHandle
	}
	return ptr.Deref(c.Spec.Source.SnapshotHandle, "")
}

func isMember(c *snapshotv1.VolumeSnapshotContent) bool {
	_, member := c.Annotations[names.AnnGroupSnapshotHandle]
	return member || c.Status != nil && c.Status.VolumeGroupSnapshotHandle != nil
}

func has(annotations map[string]string, key string) bool {
	_, ok := annotations[key]
	return ok
}

// deletionSecret is the secret for CreateSnapshot and DeleteSnapshot, which the snapshot-controller
// wrote down (SN-N10).
func deletionSecret(c *snapshotv1.VolumeSnapshotContent) types.NamespacedName {
	return types.NamespacedName{
		Namespace: c.Annotations[names.AnnSnapshotDeletionSecretNamespace],
		Name:      c.Annotations[names.AnnSnapshotDeletionSecretName],
	}
}
