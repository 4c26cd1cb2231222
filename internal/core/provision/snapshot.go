package provision

import (
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/secretref"
	"github.com/purser-csi/purser/internal/core/source"
	"github.com/purser-csi/purser/internal/core/topology"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// Verdict is what this package answers.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// Key names one claim for as long as it lives: a claim created again under the same name is another
// claim (C-94).
type Key struct {
	types.NamespacedName
	UID types.UID
}

// Snapshot is the world around one claim as the gatherer saw it. A nil pointer means that the
// object does not exist.
type Snapshot struct {
	Key    Key
	Claim  *corev1.PersistentVolumeClaim // with exactly Key.UID
	Class  *storagev1.StorageClass       // the one that the claim names
	Volume *corev1.PersistentVolume      // the one with the name from [VolumeName], as a CSI volume
	// InTree is the in-tree plugin that the class names; Class is translated then. Untranslated is
	// why it could not be; both are empty for a class of the driver. See [Migrated].
	InTree, Untranslated string
	// VolumeUnseen says that the API server has the volume and memory does not.
	VolumeUnseen bool
	Node         *corev1.Node       // the selected node, when the driver has topology
	CSINode      *storagev1.CSINode // likewise
	Nodes        []topology.Node    // those on which the driver is registered, when [NeedsNodes]
	Secret       Secret             // what is known of the provisioner's secret, if [SecretToRead] names one
	Namespace    Namespace          // what is known of the claim's namespace, if [NamespaceToRead] names it
	Pending      *intent.Entry      // a CreateVolume request of this claim whose outcome is not known
	Source       source.State       // of the claim, if [SourceToRead] names one
	Attributes   AttributesClass    // if [AttributesClassToRead] names one
	// HandedOver says that the binder in this process asks for the volume, so that the claim need
	// not say so.
	HandedOver bool
	Retry      RetryState
	Ownership  Ownership // of an instance that works for one node
	Driver     Driver
	Options    Options

	now time.Time // of the decision
}

// RetryState is what the controller remembers of the last failed attempt for a claim.
type RetryState struct {
	Failed    int // attempts in a row
	NotBefore time.Time
	// Inputs is the digest of what the attempt was made from; any change is a reason to try at once
	// (H-43).
	Inputs string
}

// Secret is what is known of a secret without its values.
type Secret struct {
	Access  Access
	Version string // its resource version; a change of it is a reason to try at once (H-43)
}

// Namespace is what is known of a namespace.
type Namespace struct {
	Access Access
	Labels map[string]string
}

// Access says whether a secret or a namespace can be read.
type Access int

const (
	// Unknown is the access to an object that was not read.
	Unknown Access = iota
	// Readable ones exist and may be read.
	Readable
	// Missing ones do not exist.
	Missing
	// Forbidden ones may not be read, whether they exist or not.
	Forbidden
)

// Driver is what must be known of the CSI driver.
type Driver struct {
	Name         string
	Controller   map[csi.ControllerServiceCapability_RPC_Type]bool
	Plugin       map[csi.PluginCapability_Service_Type]bool
	HasTopology  bool // VOLUME_ACCESSIBILITY_CONSTRAINTS
	MultiWriters bool // SINGLE_NODE_MULTI_WRITER
}

// Options are the settings of the program that a decision depends on.
type Options struct {
	NamePrefix                string           // --volume-name-prefix
	NameUUIDLength            int              // --volume-name-uuid-length; -1 keeps the whole uid
	NameTemplate              string           // --volume-name-template, in place of the prefix; empty for none
	DefaultFSType             string           // --default-fstype
	MinVolumeSize             map[string]int64 // --min-volume-size: bytes by filesystem (O-30)
	ExtraCreateMetadata       bool             // --extra-create-metadata
	ControllerPublishReadOnly bool             // --controller-publish-readonly
	DriverMetadata            []MetadataKey    // --driver-metadata: of claims, for the driver (U-50, U-51)
	VolumeMetadata            []MetadataKey    // --volume-metadata: of claims, for their PersistentVolumes (U-52)
	Topology                  topology.Rules   // which places are requested
	KeepVolumeMode            bool             // --prevent-volume-mode-conversion
	CrossNamespace            bool             // the feature gate CrossNamespaceVolumeDataSource
	IgnoreAttributes          bool             // the feature gate VolumeAttributesClass is off
	Node                      NodeOptions      // --node-deployment
	Identity                  string           // of this process, for the volume attributes (ST-9)
}

// Action is one thing to do. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// Record remembers that a request is about to be sent.
	Record struct{ Entry intent.Entry }
	// CreateVolume asks the driver. What follows is for [AfterCreate] to say.
	CreateVolume struct {
		Request *csi.CreateVolumeRequest // without secret values
		Secrets secretref.Set            // of these, the provisioner's values go into the call and nowhere else
	}
	// WriteVolume creates the PersistentVolume. When that fails, what follows is for [AfterWrite]
	// to say.
	WriteVolume struct{ Volume *corev1.PersistentVolume }
	// DiscardVolume deletes a volume that was created and is not wanted, unless it [IsNeeded] by
	// the PersistentVolume of the name, as the API server has it, or by one that shares the handle.
	// When the deletion fails, what follows is for [AfterDiscard] to say.
	DiscardVolume struct {
		Name   string // of the PersistentVolume that is made for the request
		Handle string
		Secret types.NamespacedName // for the call; empty for none
		// Announce says that the claim exists, so that a new leader could have its volume created
		// again while the call is in flight: the journal says so first.
		Announce bool
	}
	// Settle forgets the record.
	Settle struct{}
	// Note keeps the record and what is known by now.
	Note struct{ Known intent.Known }
	// Reschedule takes back the node selection of the claim (C-26).
	Reschedule struct{ Claim *corev1.PersistentVolumeClaim }
)

func (Record) action()        {}
func (CreateVolume) action()  {}
func (WriteVolume) action()   {}
func (DiscardVolume) action() {}
func (Settle) action()        {}
func (Note) action()          {}
func (Reschedule) action()    {}
