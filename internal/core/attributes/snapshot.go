package attributes

import (
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/core/rpcerror"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// Verdict is the decision of this package.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// Driver has the properties of the CSI driver that matter here.
type Driver struct {
	Name     string
	Modifies bool // the driver has the capability MODIFY_VOLUME
}

// Snapshot has the inputs of a decision about one claim.
type Snapshot struct {
	Claim  *corev1.PersistentVolumeClaim // nil: it does not exist, or another one has its name by now
	Volume *corev1.PersistentVolume      // that the claim names; nil: the cache does not have it
	Class  *storagev1.VolumeAttributesClass
	// Class is the one that [Target] names; nil: it does not exist.
	Driver Driver
	Retry  Retry
}

// Retry is the state of the last failed attempt in the process memory.
type Retry struct {
	Class     string    // [ClassID] of the attempt; empty for none
	NotBefore time.Time // when the next attempt with this class is due
}

// Action is one thing to do. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// MarkPending writes into the claim's status that the class does not exist (RZ-M6).
	MarkPending struct{}
	// Begin writes the target into the claim's status before the driver is called (RZ-M7).
	Begin struct{ Target string }
	// Modify calls the driver with the snapshot's class. [AfterModify] decides what follows.
	Modify struct{}
	// SetVolumeClass writes the class into the PersistentVolume (RZ-M10).
	SetVolumeClass struct{ Target string }
	// Finish writes the class into the claim's status (RZ-M10).
	Finish struct{ Target string }
	// Fail writes the driver's error into the claim's status (RZ-M11).
	Fail struct {
		Target  string
		Failure Failure
	}
	// Cancel removes the condition of a modification that the user took back (RZ-M4).
	Cancel struct{}
)

func (MarkPending) action()    {}
func (Begin) action()          {}
func (Modify) action()         {}
func (SetVolumeClass) action() {}
func (Finish) action()         {}
func (Fail) action()           {}
func (Cancel) action()         {}

// Failure is the error of ControllerModifyVolume.
type Failure = rpcerror.Failure

// isInfeasible reports whether the driver can never apply the class (RZ-C2).
func isInfeasible(f Failure) bool { return f.Code == codes.InvalidArgument }

// ClassID identifies a class until it is deleted: a class that is created again has another ID, and
// is tried without a delay.
func ClassID(class *storagev1.VolumeAttributesClass) string {
	if class == nil {
		return ""
	}
	return class.Name + "/" + string(class.UID)
}
