package mounting

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// Verdict is what this package answers about a volume.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// Key is a volume of the node: a persistent one by driver and handle, an inline one by driver, pod
// and its name in the pod (5.2).
type Key struct {
	Driver, Handle string
	Pod            types.UID
	Name           string
}

// IsInline reports whether the volume is given in the pod itself and lives as long as the pod.
func (k Key) IsInline() bool { return k.Pod != "" }

// VolumeID returns the handle that the driver is called with.
func (k Key) VolumeID() string {
	if k.IsInline() {
		return inlineHandle(k.Pod, k.Name)
	}
	return k.Handle
}

// UniqueName returns the name of the volume in the status of a node.
func (k Key) UniqueName() corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(names.UniqueVolumeName(k.Driver, k.Handle))
}

// String returns the name for logs and indexes.
func (k Key) String() string {
	if k.IsInline() {
		return names.VolumeNamePrefix + string(k.Pod) + "-" + k.Name
	}
	return names.UniqueVolumeName(k.Driver, k.Handle)
}

// Mode is how a volume reaches the pod.
type Mode string

// The modes.
const (
	Filesystem Mode = "Filesystem"
	Block      Mode = "Block"
)

// ID is one publication of a volume: to a pod, under the name of a PersistentVolume or, for an
// inline volume, of the pod's volume. Two PersistentVolumes with one handle have two.
type ID struct {
	Pod  types.UID
	Spec string
	Mode Mode
}

// DeviceID is one staging of a volume. Filesystem volumes with one handle share it, so its Spec is
// empty; raw block volumes are staged by PersistentVolume (5.4).
type DeviceID struct {
	Spec string
	Mode Mode
}

// Device returns the staging that the publication needs.
func (id ID) Device() DeviceID {
	if id.Mode == Block {
		return DeviceID{Spec: id.Spec, Mode: Block}
	}
	return DeviceID{Mode: Filesystem}
}

// Use is a volume as one pod wants it.
type Use struct {
	Key      Key
	ID       ID
	Pod      *corev1.Pod
	Name     string                        // of the volume in the pod
	PV       *corev1.PersistentVolume      // nil for an inline volume
	Claim    *corev1.PersistentVolumeClaim // nil for an inline volume
	Inline   *corev1.CSIVolumeSource       // nil for a persistent volume
	ReadOnly bool
}

// State is what this process knows of a device or a publication.
type State int

const (
	// Uncertain says that a call may have had an effect: its outcome is not known, or an earlier
	// process made it.
	Uncertain State = iota
	// Certain says that the driver answered this process with success.
	Certain
)

// Device is the record of a staging.
type Device struct {
	DeviceID
	State State
	Bytes int64 // the size that the node has expanded the volume to; 0 when not known
	// Refused is the size to which the driver does not expand the volume while it is in use.
	Refused int64
}

// Publication is the record of a publication.
type Publication struct {
	ID
	State State
	// Published reports that the volume was published once, by this process or an earlier one: a
	// later error must not take it away from the pod (5.6).
	Published bool
	// Found reports that the record comes from the disk, and that the pod was not seen since.
	Found bool
	At    time.Time // of the last success
}

// Record is what a node has of one volume. Its zero value is nothing.
type Record struct {
	Devices      []Device
	Publications []Publication
}

// IsEmpty reports whether nothing is left on the node.
func (r Record) IsEmpty() bool { return len(r.Devices) == 0 && len(r.Publications) == 0 }

// Device returns the record of a staging.
func (r Record) Device(id DeviceID) (Device, bool) {
	i := slices.IndexFunc(r.Devices, func(d Device) bool { return d.DeviceID == id })
	if i < 0 {
		return Device{}, false
	}
	return r.Devices[i], true
}

// Publication returns the record of a publication.
func (r Record) Publication(id ID) (Publication, bool) {
	i := slices.IndexFunc(r.Publications, func(p Publication) bool { return p.ID == id })
	if i < 0 {
		return Publication{}, false
	}
	return r.Publications[i], true
}

// WithDevice returns the record with the staging added or replaced.
func (r Record) WithDevice(d Device) Record {
	r = r.WithoutDevice(d.DeviceID)
	r.Devices = append(r.Devices, d)
	slices.SortFunc(r.Devices, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Spec, b.Spec))
	})
	return r
}

// WithoutDevice returns the record without the staging.
func (r Record) WithoutDevice(id DeviceID) Record {
	r.Devices = slices.DeleteFunc(slices.Clone(r.Devices), func(d Device) bool { return d.DeviceID == id })
	return r
}

// WithPublication returns the record with the publication added or replaced.
func (r Record) WithPublication(p Publication) Record {
	r = r.WithoutPublication(p.ID)
	r.Publications = append(r.Publications, p)
	slices.SortFunc(r.Publications, func(a, b Publication) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Spec, b.Spec))
	})
	return r
}

// WithoutPublication returns the record without the publication.
func (r Record) WithoutPublication(id ID) Record {
	r.Publications = slices.DeleteFunc(slices.Clone(r.Publications), func(p Publication) bool { return p.ID == id })
	return r
}

// Driver is what a registered driver says of its node service.
type Driver struct {
	Name         string
	Stages       bool // STAGE_UNSTAGE_VOLUME
	Expands      bool // EXPAND_VOLUME
	MountGroup   bool // VOLUME_MOUNT_GROUP
	MultiWriters bool // SINGLE_NODE_MULTI_WRITER
	Stats        bool // GET_VOLUME_STATS
}

// Node is what must be known of the node.
type Node struct {
	Name     string
	Labels   map[string]string
	Reported bool // the API server has the volume in status.volumesInUse
	Attached bool // the node's status.volumesAttached lists the volume, in a version after that
}

// Snapshot is the world around one volume of the node.
type Snapshot struct {
	Key        Key
	Node       Node
	Driver     *Driver                     // nil: no driver of the name is registered
	Info       *storagev1.CSIDriver        // nil: there is none
	Attachment *storagev1.VolumeAttachment // nil: there is none
	Uses       []Use                       // what the pods on the node want of the volume
	// Holders are the pods that have a publication and must keep it: they want their volumes, whether
	// or not claim and PersistentVolume can be resolved.
	Holders map[types.UID]bool
	// Occupied are the uses whose folders still belong to a volume with another handle: its
	// PersistentVolume was deleted, and one of the same name was made for this volume.
	Occupied map[ID]Key
	Record   Record
	// InUse says that the volume is noted as wanted by a pod; see [NoteInUse].
	InUse bool
	// Alive says of pods that were read from the API server whether it has them, with volumes that must
	// stay mounted.
	Alive map[types.UID]bool
	// Failed counts the failed attempts in a row for each publication and device. Steps that failed
	// less often go first, so that one pod does not hold up another.
	Failed map[any]int
}

// Occupies reports whether what the record has stands in the folders of the publication. Those of a
// filesystem are by pod and name; those of a raw block volume are by name alone (5.4).
func (r Record) Occupies(id ID) bool {
	return slices.ContainsFunc(r.Publications, func(p Publication) bool {
		return p.ID == id || id.Mode == Block && p.Mode == Block && p.Spec == id.Spec
	}) || id.Mode == Block && slices.ContainsFunc(r.Devices, func(d Device) bool { return d.DeviceID == id.Device() })
}

// Failure is how a step failed; without an answer if the driver was not called.
type Failure = csispec.Failure

// RefPod is a pod of the API server, by its uid, which a decision asks for.
const RefPod = "Pod of the API server"

// Action is one thing to do. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// NoteInUse notes whether a pod wants the volume, which is then reported in use if it is attached
	// before it is mounted (5.13 c).
	NoteInUse struct{ Wanted bool }
	// Unpublish calls NodeUnpublishVolume and removes what belongs to the publication (5.8).
	Unpublish struct{ Publication }
	// Unstage calls NodeUnstageVolume and removes what belongs to the device (5.8).
	Unstage struct{ Device }
	// Stage calls NodeStageVolume, or makes the folder of a driver that does not stage (5.5).
	Stage struct{ Use }
	// Publish calls NodePublishVolume and sets group and mode of the files where the driver does
	// not (5.6).
	Publish struct {
		Use
		Before Publication // zero for the first attempt
	}
	// Expand calls NodeExpandVolume (5.9).
	Expand struct{ Use }
	// CleanDevice removes what was prepared for a device after a final error.
	CleanDevice struct{ Use }
	// CleanPublication removes what was prepared for a publication after a final error.
	CleanPublication struct{ Use }
	// Tell emits an event on each of the pods.
	Tell struct {
		Pods    []*corev1.Pod
		Event   string
		Message string
	}
)

func (NoteInUse) action()        {}
func (Unpublish) action()        {}
func (Unstage) action()          {}
func (Stage) action()            {}
func (Publish) action()          {}
func (Expand) action()           {}
func (CleanDevice) action()      {}
func (CleanPublication) action() {}
func (Tell) action()             {}
