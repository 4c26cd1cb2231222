package publishing

import (
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/verdict"
)

// Verdict is the answer of this package.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// Driver is what the decisions need to know of the CSI driver and of the flags.
type Driver struct {
	Name          string
	Controller    map[csi.ControllerServiceCapability_RPC_Type]bool
	DefaultFSType string
}

func (d Driver) can(c csi.ControllerServiceCapability_RPC_Type) bool { return d.Controller[c] }

// IsTrivial reports whether the driver has no ControllerPublishVolume, so that every attachment succeeds at once (AT-T1).
func (d Driver) IsTrivial() bool {
	return !d.can(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
}

// Snapshot is the input of the decision for one VolumeAttachment.
type Snapshot struct {
	Driver     Driver
	Attachment *storagev1.VolumeAttachment
	Volume     *corev1.PersistentVolume // nil if it does not exist
	// Spec is the volume's spec, translated to CSI for a migrated volume, or the inline spec of the VolumeAttachment.
	Spec *corev1.PersistentVolumeSpec
	// Untranslated is the error of the translation to CSI; empty for none.
	Untranslated string
	Node         *storagev1.CSINode // nil if it does not exist
	// Others are VolumeAttachments of the same driver and handle on other nodes.
	Others []*storagev1.VolumeAttachment
	// Mismatched is set when ListVolumes contradicts the status; the driver is called again (AT-L4).
	Mismatched Mismatch
}

// Mismatch says whether the driver's ListVolumes contradicts the VolumeAttachment.
type Mismatch int

const (
	// Matching is the zero value: no contradiction is known.
	Matching Mismatch = iota
	// Contradicted makes the decision call the driver although the status says that it is done.
	Contradicted
)

// Action is one step. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

// Reserve keeps other workers of this process from beginning to publish a single-node volume for another node (AT-H11). After it
// Others are read again.
type Reserve struct{ Handle string }

// AddVolumeFinalizer adds the attacher's finalizer to the PersistentVolume (AT-A4).
type AddVolumeFinalizer struct{ Finalizer string }

// Prepare writes the finalizer and the annotations of the VolumeAttachment in one patch, before the first call (AT-A12).
type Prepare struct {
	Finalizer   string
	Annotations map[string]string
}

// Publish calls ControllerPublishVolume.
type Publish struct {
	Request *csi.ControllerPublishVolumeRequest // without secrets
	Secret  types.NamespacedName                // empty for none
}

// Unpublish calls ControllerUnpublishVolume.
type Unpublish struct {
	Request *csi.ControllerUnpublishVolumeRequest // without secrets
	Secret  types.NamespacedName
}

// MarkAttached writes status.attached=true with the metadata and clears attachError (AT-A14).
type MarkAttached struct{ Metadata map[string]string }

// SaveError writes status.attachError or status.detachError (AT-A15, AT-D9).
type SaveError struct {
	Direction Direction
	Message   string
	Code      *int32 // errorCode; nil for none
}

// Direction tells an attach from a detach.
type Direction int

const (
	// Attaching is ControllerPublishVolume.
	Attaching Direction = iota
	// Detaching is ControllerUnpublishVolume.
	Detaching
)

// RemoveFinalizer removes the attacher's finalizer from the VolumeAttachment (AT-D7).
type RemoveFinalizer struct{ Finalizer string }

// MarkDetached writes status.attached=false (AT-D8). It is sent only if another finalizer keeps the object (AT-H15).
type MarkDetached struct{}

func (Reserve) action()            {}
func (AddVolumeFinalizer) action() {}
func (Prepare) action()            {}
func (Publish) action()            {}
func (Unpublish) action()          {}
func (MarkAttached) action()       {}
func (SaveError) action()          {}
func (RemoveFinalizer) action()    {}
func (MarkDetached) action()       {}

// joinGrace is how long a node may take to register the driver before an error is saved (AT-H1, AT-H13).
const joinGrace = 30 * time.Second
