package binding

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/verdict"
)

// Verdict is what this package answers.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
	finding = verdict.Finding
)

// Key is the owner of a pair: the claim that a volume is for, or a volume without a claimRef. A
// volume that names a claim is worked on under the key of that claim only, so that two workers
// never write the same object.
type Key struct {
	Claim  types.NamespacedName
	Volume string // set for a volume without spec.claimRef, and Claim is not
}

// KeyOf is the key that a volume is worked on under.
func KeyOf(pv *corev1.PersistentVolume) Key {
	if ref := pv.Spec.ClaimRef; ref != nil {
		return Key{Claim: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}
	}
	return Key{Volume: pv.Name}
}

// String names the object.
func (k Key) String() string {
	if k.Volume != "" {
		return k.Volume
	}
	return k.Claim.String()
}

// Snapshot is the world around one key as the gatherer saw it. Its objects must not be changed.
type Snapshot struct {
	Key   Key
	Claim *corev1.PersistentVolumeClaim // nil: it does not exist
	// Gone are the uids of previous claims of this name whose deletion was seen. A uid never comes
	// back.
	Gone map[types.UID]struct{}
	// ClaimAsked says that Claim is what the API server says now, absence included, and not what a
	// cache remembers.
	ClaimAsked bool

	Named        *corev1.PersistentVolume   // the one in the claim's spec.volumeName; nil: it does not exist
	VolumesAsked bool                       // Named is what the API server says now
	Refs         []*corev1.PersistentVolume // those whose spec.claimRef names the key, or the one that the key names
	Offer        *corev1.PersistentVolume   // the best static volume, free or held for this claim; nil: there is none

	Class     *storagev1.StorageClass // the one that the claim names; nil: it does not exist
	Default   *storagev1.StorageClass // the default class; nil: there is none
	Pods      []Consumer              // that use the claim; of a class that waits for one of them
	InProcess bool                    // the provisioner of Class is in this process and at work
	// Unused is the condition Unused that the claim has once it is bound. Nil if the controller that
	// keeps this condition is in another process.
	Unused *corev1.PersistentVolumeClaimCondition
	// Refusal is the last write of this run that the API server refused as outdated; nil for none.
	Refusal *Refusal
}

func (s Snapshot) gone(uid types.UID) bool {
	_, ok := s.Gone[uid]
	return ok
}

// Action is one thing to do. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// Reserve holds the offered volume for the claim in the memory of this process, so that no other
	// claim is given it meanwhile. When another claim was faster, the next best volume is held, and
	// it is decided again.
	Reserve struct {
		Volume *corev1.PersistentVolume
		Claim  *corev1.PersistentVolumeClaim
	}
	// ClaimVolume is the first write of a binding (W1), and the one that counts: it puts the claim,
	// with its uid, into the volume's spec.claimRef. It carries the volume's resource version, so
	// that of two that want a volume one gets it (C1).
	ClaimVolume struct {
		Volume *corev1.PersistentVolume
		Claim  *corev1.PersistentVolumeClaim
		Mark   bool // the choice is ours and may be undone (C3)
	}
	// Complete is the second and the third write (W2, W3). They are about different objects, and
	// the pair is ours by then.
	Complete struct {
		Volume *corev1.PersistentVolume      // gets the phase Bound; nil when it has it
		Claim  *corev1.PersistentVolumeClaim // gets spec.volumeName and bind-completed; nil when it has both
		Name   string                        // of the volume
		Owner  types.UID                     // of the claim
		Mark   bool                          // the choice is ours (C3)
	}
	// SetClaimStatus is the fourth write (W4), or takes back what an earlier one said.
	SetClaimStatus struct {
		Claim  *corev1.PersistentVolumeClaim
		Volume string // that the claim names by then
		Status ClaimStatus
	}
	// SetVolumePhase says what a volume is that is not bound.
	SetVolumePhase struct {
		Volume  *corev1.PersistentVolume
		Phase   corev1.PersistentVolumePhase
		Message string
		AsSeen  bool // fails on a volume in which anything has changed
	}
	// Unbind takes a volume back from a claim that has another one, or that is gone: for any claim,
	// or only the uid, so that it still is for a claim of that name, or for one of another name.
	Unbind struct {
		Volume *corev1.PersistentVolume
		Whole  bool
		For    types.NamespacedName // empty for the name that is there
	}
	// AssignClass gives the default class to a claim that asks for none and got no volume.
	AssignClass struct {
		Claim *corev1.PersistentVolumeClaim
		Class string
	}
	// AskProvisioner puts the name of the driver on the claim, which is what an external
	// provisioner waits for (C4).
	AskProvisioner struct {
		Claim  *corev1.PersistentVolumeClaim
		Driver string
	}
	// HandOver gives the claim to the provisioner in this process.
	HandOver struct {
		Claim  *corev1.PersistentVolumeClaim
		Driver string
	}
	// SetMigration says which driver took over the in-tree plugin that an object names; "" for
	// none. Finalizers of a provisioner that does not delete the volume any more go with it.
	SetMigration struct {
		Claim      *corev1.PersistentVolumeClaim // or
		Volume     *corev1.PersistentVolume
		Driver     string
		Finalizers []string
	}
	// Tell writes the event of a finding about the volume or the claim.
	Tell struct {
		Volume  *corev1.PersistentVolume // or
		Claim   *corev1.PersistentVolumeClaim
		Finding verdict.Finding
	}
)

func (Reserve) action()        {}
func (ClaimVolume) action()    {}
func (Complete) action()       {}
func (SetClaimStatus) action() {}
func (SetVolumePhase) action() {}
func (Unbind) action()         {}
func (AssignClass) action()    {}
func (AskProvisioner) action() {}
func (HandOver) action()       {}
func (SetMigration) action()   {}
func (Tell) action()           {}

// ClaimStatus is a status to write. Fields that are not to be touched are absent from it.
type ClaimStatus struct {
	Phase       corev1.PersistentVolumeClaimPhase
	Cleared     bool // access modes, capacity and attributes class go
	AccessModes []corev1.PersistentVolumeAccessMode
	Capacity    corev1.ResourceList
	Attributes  *string // status.currentVolumeAttributesClassName
	// Unused is the only condition of the claim; nil for no change of its conditions. Its
	// LastTransitionTime is the time of the write.
	Unused *corev1.PersistentVolumeClaimCondition
}
