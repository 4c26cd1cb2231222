package publishing

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// Verdict is what this package answers.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// Driver is what must be known of the CSI driver.
type Driver struct {
	Name string
	// Publishes says that the driver has PUBLISH_UNPUBLISH_VOLUME. Without it attachments are
	// marked and nothing is called (AT-T1).
	Publishes     bool
	ReadOnly      bool // PUBLISH_READONLY
	MultiWriters  bool // SINGLE_NODE_MULTI_WRITER
	DefaultFSType string
}

// Snapshot is the world around one VolumeAttachment.
type Snapshot struct {
	Attachment *storagev1.VolumeAttachment // nil: it does not exist
	// Volume is the one that the attachment names, or that stands in it as an inline spec. One of an
	// in-tree plugin is translated to its driver's (AT-A5). nil: it does not exist.
	Volume *corev1.PersistentVolume
	// Untranslated is why the volume could not be translated; empty if it could.
	Untranslated string
	// Migrated says that the volume was translated, or is inline, for the label of the metrics (AT-M1).
	Migrated bool
	Node     *storagev1.CSINode // of its node; nil: it does not exist
	// Others are the other VolumeAttachments of the same volume, if HasOthers says that they were read.
	Others    []*storagev1.VolumeAttachment
	HasOthers bool
	Driver    Driver
	// Mismatch says that the driver lists the volume otherwise than the status says (AT-L4), and
	// MismatchDue that no call was made for it since.
	Mismatch, MismatchDue bool
	Failed                Attempt // the last one, if it failed
	IsLive                bool    // whether the attachment was read from the API server
}

// Attempt is one that failed. The zero value is for none.
type Attempt struct {
	Count  int       // failed attempts in a row
	Next   time.Time // when the next one is due
	Inputs string    // [Inputs] of it
}

// Inputs tells two attempts apart: a deletion ends the delay of an attach that failed (AT-Q3).
func Inputs(va *storagev1.VolumeAttachment) string {
	if va.DeletionTimestamp != nil {
		return string(va.UID) + " deleted"
	}
	return string(va.UID)
}

// What a decision may ask for.
const (
	RefAttachment     = "VolumeAttachment"
	RefLiveAttachment = "VolumeAttachment of the API server"
	RefVolume         = "PersistentVolume"
	RefOthers         = "other VolumeAttachments of the PersistentVolume"
)

// Action is one thing to do. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// ProtectVolume adds the finalizer to the PersistentVolume (AT-A4).
	ProtectVolume struct{}
	// Prepare writes onto the attachment what a detach needs, before the driver is asked: the
	// finalizer, the node id and the volume's handle (AT-A12).
	Prepare struct{ NodeID, Handle string }
	// Publish calls ControllerPublishVolume.
	Publish struct{ NodeID string }
	// MarkAttached writes status.attached (AT-A14).
	MarkAttached struct{ Metadata map[string]string }
	// Unpublish calls ControllerUnpublishVolume.
	Unpublish struct{ Handle, NodeID string }
	// Release removes the finalizer of the attachment, whose volume is unpublished (AT-D7).
	Release struct{}
	// MarkDetached takes status.attached back; it is done only if another finalizer keeps the
	// object (AT-D8, AT-H15).
	MarkDetached struct{}
	// MarkFailed writes status.attachError, or status.detachError of an attachment that is being
	// deleted.
	MarkFailed struct {
		Message string
		Code    *int32 // of the driver's answer; nil for other errors (AT-A16)
	}
)

func (ProtectVolume) action() {}
func (Prepare) action()       {}
func (Publish) action()       {}
func (MarkAttached) action()  {}
func (Unpublish) action()     {}
func (Release) action()       {}
func (MarkDetached) action()  {}
func (MarkFailed) action()    {}

// maxMessage is how many bytes of an error the API server accepts in the status (AT-H3, AT-A17).
const maxMessage = 1024

// Cut shortens a message to what the API server accepts, on the boundary of a character.
func Cut(message string) string {
	const more = "…"
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len(more)], "") + more
}
