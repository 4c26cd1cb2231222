package attachment

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// Verdict is the answer of this package.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// Key is one volume of one driver. All nodes of a volume are decided together: exclusive volumes
// need that.
type Key struct {
	Driver, Handle string
	// Attachment is the name of a VolumeAttachment whose handle is not known: its PersistentVolume
	// is gone. Empty otherwise.
	Attachment string
}

// UniqueName returns the name of the volume in a node's status (C8).
func (k Key) UniqueName() corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(names.UniqueVolumeName(k.Driver, k.Handle))
}

// String returns the key for logs.
func (k Key) String() string {
	if k.Attachment != "" {
		return k.Attachment
	}
	return k.Driver + "^" + k.Handle
}

// KeyOfVolume returns the driver and the handle of a volume, for an in-tree volume those of its
// migration (4.9). A volume that is nil has none.
func KeyOfVolume(pv *corev1.PersistentVolume) (Key, bool) {
	if pv == nil {
		return Key{}, false
	}
	pv, err := objects.ToCSI(pv)
	if err != nil || pv.Spec.CSI == nil {
		return Key{}, false
	}
	return Key{Driver: pv.Spec.CSI.Driver, Handle: pv.Spec.CSI.VolumeHandle}, true
}

// Snapshot is the input of the decision for one volume.
type Snapshot struct {
	Key     Key
	Driver  *storagev1.CSIDriver // nil if it does not exist
	Volumes []*corev1.PersistentVolume
	// Bound has the names of those that are bound to a claim which exists.
	Bound map[string]bool
	// Inline is the volume as pods name it in place, translated from an in-tree plugin (4.9); nil if
	// none does. It is no object.
	Inline *corev1.PersistentVolume
	// Pods are those that use a bound claim of one of the volumes (R11: several with the same
	// handle are one volume), or name it in place.
	Pods        []*corev1.Pod
	Attachments []*storagev1.VolumeAttachment // of the driver and the handle
	// Live has PersistentVolumes of the API server by name, as far as they were read; nil for one that
	// does not exist.
	Live map[string]*corev1.PersistentVolume
	// Nodes has each node that a pod, a VolumeAttachment or a list names; absent for one that does
	// not exist.
	Nodes map[string]*corev1.Node
	// Confirmed has the VolumeAttachments that this process has created or confirmed, and not listed
	// since; see [Confirm].
	Confirmed map[types.UID]bool
	// Listing has the nodes whose list gets the volume with a write of this process that is not answered.
	Listing map[string]bool
	// Unlisting has the nodes whose list loses the volume with a write of this process that is not answered.
	Unlisting map[string]bool
	// Unwanted says since when the volume is attached to a node that does not want it; absent for
	// one that was just noticed.
	Unwanted map[string]time.Time
	// UnusedSince is since when the audit has found a VolumeAttachment whose handle is not known; zero for
	// one that it has not seen.
	UnusedSince time.Time
	// Known is the key of the volume of a VolumeAttachment whose handle has become known; nil for none.
	Known *Key
	Rules Rules
}

// RefVolume is a PersistentVolume of the API server, which a decision asks for.
const RefVolume = "PersistentVolume of the API server"

// Rules are the settings of the controller.
type Rules struct {
	// ForceAfter is how long an unhealthy node may report an unwanted volume in use before it is
	// detached anyway; 0 for never.
	ForceAfter time.Duration
	// AuditEvery is how long a VolumeAttachment without a PersistentVolume must be unused before it is
	// deleted, at least a second.
	AuditEvery time.Duration
}

// Action is one step. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

// Create creates the VolumeAttachment of a node. Volume is the PersistentVolume, empty for the one
// that pods name in place.
type Create struct{ Name, Node, Volume string }

// Confirm writes to a VolumeAttachment that another process has created, before the volume is listed
// on its node. A deletion has the resourceVersion of the VolumeAttachment as its precondition, so
// that a deletion which a previous leader has sent, and which arrives late, is refused from then on.
// Without it:
//
//  1. the previous leader unlists the volume, sends the deletion, and is killed;
//  2. the pod comes back, and this process lists the volume again;
//  3. the kubelet mounts it;
//  4. the deletion arrives, and the volume is detached from below the pod.
type Confirm struct{ Attachment *storagev1.VolumeAttachment }

// List puts the volume into the node's status.volumesAttached, and then tells the pods; no pods for no event.
type List struct {
	Node string
	Then Tell
}

// Unlist removes the volume from the node's status.volumesAttached. The Node of the answer decides
// what follows (C6).
type Unlist struct {
	Node       string
	Attachment *storagev1.VolumeAttachment // to be deleted after it; nil for none
	Force      Force
}

// Delete deletes the VolumeAttachment with this uid and resourceVersion.
type Delete struct {
	Attachment *storagev1.VolumeAttachment
	Force      Force
}

// Force says why a volume is detached that the node reports in use.
type Force string

const (
	// NotForced is a detach of a volume that the node does not use.
	NotForced Force = ""
	// ForcedByTimeout is for a node that is unhealthy for longer than the rules allow.
	ForcedByTimeout Force = "timeout"
	// ForcedByTaint is for a node with the taint out-of-service.
	ForcedByTaint Force = "out-of-service"
)

// Note notes the nodes that have the volume and do not want it, for [Snapshot.Unwanted]: the timer of a
// forced detach starts.
type Note struct{ Unwanted []string }

// Requeue enqueues a VolumeAttachment under the key of its volume.
type Requeue struct{ Key Key }

// Tell emits an event on pods.
type Tell struct {
	Pods    []*corev1.Pod
	Event   Event
	Message string
	// State is what the event says of the volume. A pod whose last event about the volume had the same
	// state gets it again only after Again; 0 for never.
	State string
	Again time.Duration
}

// Event is a kind of event on pods, with upstream's reasons (4.4, 4.8).
type Event string

const (
	// Attached is Normal SuccessfulAttachVolume.
	Attached Event = "SuccessfulAttachVolume"
	// Failed is Warning FailedAttachVolume.
	Failed Event = "FailedAttachVolume"
)

func (Create) action()  {}
func (Confirm) action() {}
func (List) action()    {}
func (Unlist) action()  {}
func (Delete) action()  {}
func (Note) action()    {}
func (Requeue) action() {}
func (Tell) action()    {}

// podKey identifies a pod.
func podKey(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
