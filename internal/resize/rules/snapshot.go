package resizing

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/verdict"
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
	Name string
	// Controller says that the driver has ControllerExpandVolume. Without it the node expands (the
	// trivial resizer, RZ-S2).
	Controller bool
}

// Snapshot has the inputs of a decision about one claim.
type Snapshot struct {
	Claim  *corev1.PersistentVolumeClaim // nil: it does not exist, or is another one by now
	Volume *corev1.PersistentVolume      // that the claim names; nil: the cache does not have it
	Driver Driver
	// Elsewhere says that the volume is on another node than this instance (--node-deployment).
	Elsewhere bool
	// OfflineOnly says that the driver has refused this claim's expansion with FAILED_PRECONDITION,
	// as for a volume in use.
	OfflineOnly bool
	Users       []string // pods that use the claim and have not ended; nil: not read, see [ReadUsers]
	AnnotateFS  bool     // gate AnnotateFsResize (RZ-G1)
	Retry       Retry
}

// ReadUsers is what a decision asks for if it depends on the pods that use the claim.
const ReadUsers = "users of the claim"

// Retry is the state of the last failed attempt in the process memory.
type Retry struct {
	Size      resource.Quantity // of the attempt; zero for none
	NotBefore time.Time         // when the next attempt with this size is due
}

// Action is one thing to do. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// ForgetOldSize removes the annotation with the capacity from before an expansion, which the
	// node has finished (RZ-D1).
	ForgetOldSize struct{}
	// Begin writes the size into the claim's status before the driver is called (RZ-X1). The
	// claim's resourceVersion is the precondition of the write.
	Begin struct{ Size resource.Quantity }
	// Expand calls the driver. [AfterExpand] decides what follows.
	Expand struct {
		Size  resource.Quantity
		Bytes int64 // of the size
	}
	// RaiseVolume writes the capacity of the PersistentVolume (RZ-X5).
	RaiseVolume struct {
		Capacity resource.Quantity
		OldSize  string // value of the annotation pre-resize-capacity; empty for none
	}
	// HandToNode writes into the claim's status that the node must expand (RZ-X6).
	HandToNode struct{ Size resource.Quantity }
	// Finish writes the new capacity into the claim's status (RZ-X7).
	Finish struct{ Size, Capacity resource.Quantity }
	// Fail writes a condition with the error, and the state infeasible after such an error (RZ-X8,
	// RZ-X9).
	Fail struct {
		Size       resource.Quantity
		Message    string
		Infeasible bool
	}
	// Reject writes what Begin and an infeasible Fail write, for a size that the driver is not
	// called with. The claim's resourceVersion is the precondition of the write.
	Reject struct {
		Size    resource.Quantity
		Message string
	}
)

func (ForgetOldSize) action() {}
func (Begin) action()         {}
func (Expand) action()        {}
func (RaiseVolume) action()   {}
func (HandToNode) action()    {}
func (Finish) action()        {}
func (Fail) action()          {}
func (Reject) action()        {}

// Failure is the error of ControllerExpandVolume or ControllerModifyVolume.
type Failure = csispec.Failure

// infeasible are the codes of RZ-C2.
var infeasible = []codes.Code{codes.InvalidArgument, codes.OutOfRange, codes.NotFound}

// isInfeasible reports whether the size can never be had.
func isInfeasible(f Failure) bool { return f.Answered(infeasible...) }

// IsInUse reports whether the driver may want the volume offline first (RZ-C3).
func IsInUse(f Failure) bool { return f.Answered(codes.FailedPrecondition) }

// conditions that an expansion writes (RZ-E1).
var conditions = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
	corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
}

// IsResizeCondition reports whether a condition is one that an expansion writes.
func IsResizeCondition(kind corev1.PersistentVolumeClaimConditionType) bool {
	return slices.Contains(conditions, kind)
}

func hasCondition(claim *corev1.PersistentVolumeClaim, kind corev1.PersistentVolumeClaimConditionType) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

func hasMessage(claim *corev1.PersistentVolumeClaim, kind corev1.PersistentVolumeClaimConditionType, text string) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue && c.Message == text
	})
}

func requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

func capacity(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Status.Capacity[corev1.ResourceStorage]
}

func status(claim *corev1.PersistentVolumeClaim) corev1.ClaimResourceStatus {
	return claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
}

// allocated returns the size of the last attempt, or what is requested if there was none.
func allocated(claim *corev1.PersistentVolumeClaim) (size resource.Quantity, ok bool) {
	if size, ok = claim.Status.AllocatedResources[corev1.ResourceStorage]; ok {
		return size, true
	}
	return requested(claim), false
}
