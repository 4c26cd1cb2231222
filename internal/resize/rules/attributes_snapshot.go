package resizing

import (
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// AttributesVerdict is the decision of this package.
type AttributesVerdict = verdict.Verdict[AttributesAction]

type (
	attributesNothing = verdict.Nothing[AttributesAction]
	attributesWait    = verdict.Wait[AttributesAction]
	attributesRefuse  = verdict.Refuse[AttributesAction]
	attributesDo      = verdict.Do[AttributesAction]
)

// AttributesDriver has the properties of the CSI driver that matter here.
type AttributesDriver struct {
	Name     string
	Modifies bool // the driver has the capability MODIFY_VOLUME
}

// AttributesSnapshot has the inputs of a decision about one claim.
type AttributesSnapshot struct {
	Claim  *corev1.PersistentVolumeClaim    // nil: it does not exist, or another one has its name by now
	Volume *corev1.PersistentVolume         // that the claim names; nil: the cache does not have it
	Class  *storagev1.VolumeAttributesClass // with the name ClassRead; nil: it does not exist
	// ClassRead is the name of the class that was read; empty for none, see [ReadClass].
	ClassRead string
	Driver    AttributesDriver
	// Elsewhere says that the volume is on another node than this instance (--node-deployment).
	Elsewhere bool
	Retry     AttributesRetry
}

// ReadClass is what a decision asks for if it depends on a class of this name.
const ReadClass = "VolumeAttributesClass"

// AttributesRetry is the state of the last failed attempt in the process memory.
type AttributesRetry struct {
	Class     string    // [ClassID] of the attempt; empty for none
	NotBefore time.Time // when the next attempt with this class is due
}

// AttributesAction is one thing to do. The interface is sealed.
//
//sumtype:decl
type AttributesAction interface{ attributesAction() }

type (
	// MarkPending writes into the claim's status that the class does not exist (RZ-M6).
	MarkPending struct{}
	// AttributesBegin writes the target into the claim's status before the driver is called (RZ-M7).
	AttributesBegin struct{ Target string }
	// Modify calls the driver with the snapshot's class. [AfterModify] decides what follows.
	Modify struct{}
	// SetVolumeClass writes the class into the PersistentVolume (RZ-M10).
	SetVolumeClass struct{ Target string }
	// AttributesFinish writes the class into the claim's status (RZ-M10).
	AttributesFinish struct{ Target string }
	// AttributesFail writes the driver's error into the claim's status (RZ-M11).
	AttributesFail struct {
		Target  string
		Failure Failure
	}
	// AttributesReject writes what Begin and Fail write, for a class that the driver is not called with. The
	// claim's resourceVersion is the precondition of the write.
	AttributesReject struct{ AttributesFail }
	// Cancel removes the condition of a modification that the user took back (RZ-M4).
	Cancel struct{}
)

func (MarkPending) attributesAction()      {}
func (AttributesBegin) attributesAction()  {}
func (Modify) attributesAction()           {}
func (SetVolumeClass) attributesAction()   {}
func (AttributesFinish) attributesAction() {}
func (AttributesFail) attributesAction()   {}
func (AttributesReject) attributesAction() {}
func (Cancel) attributesAction()           {}

// attributesIsInfeasible reports whether the driver can never apply the class (RZ-C2).
func attributesIsInfeasible(f Failure) bool { return f.Answered(codes.InvalidArgument) }

// ClassID identifies a class until it is deleted: a class that is created again has another ID, and
// is tried without a delay.
func ClassID(class *storagev1.VolumeAttributesClass) string {
	if class == nil {
		return ""
	}
	return class.Name + "/" + string(class.UID)
}
