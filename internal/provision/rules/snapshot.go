package provision

import (
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/secretref"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/internal/verdict"
)

// Verdict is the result of a decision of this package.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// Key identifies one claim object: a claim that is created again under the same name has another
// key (C-94).
type Key struct {
	types.NamespacedName
	UID types.UID
}

// Snapshot is the state of one claim and of everything that its decision depends on. A nil pointer
// means that the object does not exist.
type Snapshot struct {
	Key    Key
	Claim  *corev1.PersistentVolumeClaim // with exactly Key.UID
	Class  *storagev1.StorageClass       // the one that the claim names
	Volume *corev1.PersistentVolume      // the one with the name from [VolumeName], as a CSI volume
	// InTree is the in-tree plugin of the class, which is translated then. Untranslated is the
	// error of a failed translation. Both are empty for a class of the driver. See [Migrated].
	InTree, Untranslated string
	// VolumeUnseen says that the API server has the volume and the informer cache does not.
	VolumeUnseen bool
	Node         *corev1.Node       // the selected node, when the driver has topology
	CSINode      *storagev1.CSINode // likewise
	Nodes        []topology.Node    // with the driver registered; see [ReadNodes]
	Secret       Secret             // see [ReadSecret]
	Namespace    Namespace          // see [ReadNamespace]
	Pending      *intent.Entry      // the unresolved journal entry of the claim; nil for none
	Source       source.State       // see [ReadSource]
	SourceShared bool               // Source was read for another claim
	Attributes   AttributesClass    // see [ReadAttributes]
	// Read are the references that decisions asked for and that were read.
	Read []verdict.Ref
	// Provisioned says that this process has provisioned a volume for the claim.
	Provisioned bool
	// HandedOver says that the binder in this process requested the volume, so that the claim needs
	// no provisioner annotation.
	HandedOver bool
	Retry      RetryState
	Ownership  Ownership // of an instance that works for one node
	Driver     Driver
	Options    Options

	now time.Time // of the decision
}

// RetryState is the backoff of a claim.
type RetryState struct {
	Failed    int // failed attempts in a row
	NotBefore time.Time
	// Inputs is the digest of the inputs of the last attempt; any change ends the backoff (H-43).
	Inputs string
}

// Secret is a secret without its values.
type Secret struct {
	Access  Access
	Version string // its resourceVersion; a change ends the backoff (H-43)
	Refusal string // the error of a read that is forbidden
}

// Namespace is a namespace as far as it could be read.
type Namespace struct {
	Access Access
	Labels map[string]string
}

// Access is the result of reading a secret, a namespace or a class.
type Access int

const (
	// Unknown means that the object was not read, or that the read failed.
	Unknown Access = iota
	// Readable means that it exists and was read.
	Readable
	// Missing means that it does not exist.
	Missing
	// Forbidden means that RBAC forbids the read, whether the object exists or not.
	Forbidden
)

// Driver is the name and the capabilities of the CSI driver.
type Driver struct {
	Name         string
	Controller   map[csi.ControllerServiceCapability_RPC_Type]bool
	Plugin       map[csi.PluginCapability_Service_Type]bool
	HasTopology  bool // VOLUME_ACCESSIBILITY_CONSTRAINTS
	MultiWriters bool // SINGLE_NODE_MULTI_WRITER
}

// Options are the flags that a decision depends on.
type Options struct {
	NamePrefix                string           // --volume-name-prefix
	NameUUIDLength            int              // --volume-name-uuid-length; -1 keeps the whole uid
	NameTemplate              string           // --volume-name-template, in place of the prefix; empty for none
	DefaultFSType             string           // --default-fstype
	MinVolumeSize             map[string]int64 // --min-volume-size: bytes by filesystem (O-30)
	ExtraCreateMetadata       bool             // --extra-create-metadata
	ControllerPublishReadOnly bool             // --controller-publish-readonly
	DriverMetadata            []MetadataKey    // --driver-metadata: of claims, for the driver (U-50, U-51)
	VolumeMetadata            []MetadataKey    // --volume-metadata: of claims, for their PersistentVolume (U-52)
	Topology                  topology.Rules   // which places are requested
	KeepVolumeMode            bool             // --prevent-volume-mode-conversion
	CrossNamespace            bool             // the feature gate CrossNamespaceVolumeDataSource
	IgnoreAttributes          bool             // the feature gate VolumeAttributesClass is off
	Node                      NodeOptions      // --node-deployment
	Attaches                  bool             // the attacher of the driver is in the same process
	Identity                  string           // of this process, for the volume attributes (ST-9)
}

// Action is one effect for the controller to carry out. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// Record writes the journal entry before the request is sent.
	Record struct{ Entry intent.Entry }
	// CreateVolume calls the driver. [AfterCreate] says what follows.
	CreateVolume struct {
		Request *csi.CreateVolumeRequest // without secret values
		Secrets secretref.Set            // only the provisioner secret's values are added, for the call alone
	}
	// WriteVolume creates the PersistentVolume. If that fails, [AfterWrite] says what follows.
	WriteVolume struct{ Volume *corev1.PersistentVolume }
	// DiscardVolume records the handle of a created volume that is not wanted, and deletes the
	// volume, unless [IsNeeded] finds a PersistentVolume of that name, or one with the same handle.
	// If the call fails, [AfterDiscard] says what follows.
	DiscardVolume struct {
		Name   string // of the request, and so of its PersistentVolume
		Handle string
		Secret types.NamespacedName // for the call; empty for none
	}
	// Resolve removes the journal entry.
	Resolve struct{}
	// Note keeps the journal entry and stores what is known of its volume.
	Note struct{ Known intent.Known }
	// Reschedule removes the selected node from the claim (C-26).
	Reschedule struct{ Claim *corev1.PersistentVolumeClaim }
)

func (Record) action()        {}
func (CreateVolume) action()  {}
func (WriteVolume) action()   {}
func (DiscardVolume) action() {}
func (Resolve) action()       {}
func (Note) action()          {}
func (Reschedule) action()    {}
