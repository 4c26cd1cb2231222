package resizing

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// Decide says what to do for a claim. now is compared with the time of the next attempt only.
func Decide(s Snapshot, now time.Time) Verdict {
	switch {
	case s.Claim == nil:
		return idle("the claim does not exist any more")
	case s.Volume == nil && s.Claim.Spec.VolumeName != "":
		return wait{
			Finding: verdict.Because(verdict.ResizeNotRequested, "the cache does not have the claim's volume yet"),
		}
	case s.Volume == nil:
		return idle("the claim has no volume")
	case !isOurs(s):
		return idle("another driver serves the volume")
	case s.Elsewhere:
		return idle(onAnotherNode)
	}
	v := decide(s, now)
	if _, asks := v.(verdict.Read[Action]); asks || !leftOver(s) {
		return v
	}
	forget := verdict.Because(
		verdict.ResizeNotRequested, "the annotation with the size from before the expansion is not needed any more",
	)
	if first, acts := v.(do); acts {
		first.Actions = append([]Action{ForgetOldSize{}}, first.Actions...)
		return first
	}
	return do{Finding: forget, Actions: []Action{ForgetOldSize{}}, Then: v}
}

// isOurs is RZ-D3 and RZ-D4. A migrated volume is ours if the claim says so.
func isOurs(s Snapshot) bool {
	if !objects.IsVolumeOf(s.Volume, s.Claim) {
		return false
	}
	if s.Volume.Spec.CSI != nil {
		return s.Volume.Spec.CSI.Driver == s.Driver.Name
	}
	return s.Claim.Annotations[names.AnnStorageResizer] == s.Driver.Name
}

// leftOver reports whether the volume has the annotation of an expansion that is over (RZ-D1).
func leftOver(s Snapshot) bool {
	_, annotated := s.Volume.Annotations[names.AnnPreResizeCapacity]
	has, volume := capacity(s.Claim), s.Volume.Spec.Capacity[corev1.ResourceStorage]
	return s.AnnotateFS && annotated && size.Compare(has, volume) >= 0
}

func decide(s Snapshot, now time.Time) Verdict {
	if !Grows(s.Claim) { // RZ-D2
		return idle("the claim has what it asks for, or is not bound")
	}
	next, call := target(s)
	if !call {
		return wait{Finding: verdict.Because(
			verdict.ResizeOnNode,
			"the node expands the filesystem to %s where the volume is mounted next", next.String(),
		)}
	}
	bytes, problem := bytesOf(next)
	if problem != nil {
		return reject(s, next, *problem)
	}
	if s.OfflineOnly && s.Users == nil {
		return verdict.MustRead[Action](verdict.Ref{What: ReadUsers})
	}
	same := size.Compare(s.Retry.Size, next) == 0 && !s.Retry.Size.IsZero()
	offline := s.OfflineOnly && len(s.Users) == 0
	switch {
	case same && now.Before(s.Retry.NotBefore) && !offline: // RZ-D13, RZ-C5: another size is tried at once
		return wait{
			Finding: verdict.Because(
				verdict.WaitForRetry,
				"the last attempt to expand to %s failed, and the next one is not due yet", next.String(),
			),
			Until: s.Retry.NotBefore,
		}
	case s.OfflineOnly && len(s.Users) > 0: // RZ-D12
		return refuse{Finding: verdict.Finding{
			Reason: verdict.ResizeNeedsOffline,
			Message: fmt.Sprintf("Unable to expand %s/%s because CSI driver %s only supports offline expansion and "+
				"volume is currently in-use",
				s.Claim.Namespace, s.Claim.Name, s.Driver.Name),
			Fix: "Stop " + strings.Join(s.Users, ", ") + ", which use it; the expansion goes on then",
		}, Retry: verdict.RetrySlowly}
	}
	begin := verdict.Because(verdict.ResizeStarted, "External resizer is resizing volume %s", s.Volume.Name)
	actions := []Action{Expand{Size: next, Bytes: bytes}}
	if mustBegin(s, next) {
		actions = append([]Action{Begin{next}}, actions...)
	}
	return do{Finding: begin, Actions: actions}
}

// bytesOf returns the size for the driver, which takes 0 for its default, or for no change.
func bytesOf(next resource.Quantity) (int64, *size.Problem) {
	bytes, problem := size.Bytes(next)
	if problem == nil && bytes == 0 {
		problem = &size.Problem{Message: next.String() + " is no size", Fix: "Ask for a size above 0"}
	}
	return bytes, problem
}

// onAnotherNode is why an instance of one node leaves a claim alone.
const onAnotherNode = "the volume is on another node, whose instance expands and modifies it"

// Attempt returns the size that the driver is called with when the next attempt is due; empty for none.
func Attempt(s Snapshot) string {
	if s.Claim == nil || s.Volume == nil || !isOurs(s) || s.Elsewhere || !Grows(s.Claim) {
		return ""
	}
	if next, call := target(s); call {
		return next.String()
	}
	return ""
}

// reject refuses a size that no request can have, with the status that upstream writes when the
// driver refuses a size (RZ-X1, RZ-X8). Nothing is repeated: only another request of the claim
// changes the decision.
func reject(s Snapshot, next resource.Quantity, problem size.Problem) Verdict {
	because := verdict.Finding{
		Reason:  verdict.ResizeSizeInvalid,
		Message: fmt.Sprintf("claim spec.resources.requests.storage: %s; the driver is not called", problem.Message),
		Fix:     problem.Fix + "; the expansion to the new size begins by itself",
	}
	then := wait{Finding: because}
	action := Reject{Size: next, Message: condition(Failure{Message: because.Message})}
	last, recorded := allocated(s.Claim)
	if recorded && size.Compare(last, next) == 0 &&
		status(s.Claim) == corev1.PersistentVolumeClaimControllerResizeInfeasible &&
		hasMessage(s.Claim, corev1.PersistentVolumeClaimControllerResizeError, action.Message) {
		return then
	}
	return do{Finding: because, Actions: []Action{action}, Then: then}
}

// mustBegin returns false if the status has this size in progress already, since a retry writes
// nothing (RZ-H9). A failed attempt has left a condition, which a new attempt removes.
func mustBegin(s Snapshot, next resource.Quantity) bool {
	have, ok := allocated(s.Claim)
	return !ok || size.Compare(have, next) != 0 ||
		status(s.Claim) != corev1.PersistentVolumeClaimControllerResizeInProgress ||
		!hasCondition(
			s.Claim, corev1.PersistentVolumeClaimResizing,
		) || hasCondition(s.Claim, corev1.PersistentVolumeClaimControllerResizeError)
}

// target is the table RZ-D6 to RZ-D11c: the next size, and whether the driver has to be called for
// it. A recorded size that no request can have is that of no call, so it is not finished first.
//
//nolint:gocyclo // the table of the specification, row by row
func target(s Snapshot) (next resource.Quantity, call bool) {
	wants, volume := requested(s.Claim), s.Volume.Spec.Capacity[corev1.ResourceStorage]
	last, recorded := allocated(s.Claim)
	if _, problem := size.Bytes(last); problem != nil {
		last, recorded = wants, false
	}
	smaller := size.Compare(volume, wants) < 0
	switch state := status(s.Claim); {
	case state == corev1.PersistentVolumeClaimNodeResizePending ||
		state == corev1.PersistentVolumeClaimNodeResizeInProgress:
		return last, smaller && size.Compare(volume, last) < 0 // RZ-D6, RZ-D10: else the node must finish first
	case state == corev1.PersistentVolumeClaimNodeResizeInfeasible && smaller:
		return last, true // RZ-D7
	case state == corev1.PersistentVolumeClaimNodeResizeInfeasible && !s.Driver.Controller:
		return wants, true // RZ-D11
	case state == corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return last, true // RZ-D11
	case smaller && state == corev1.PersistentVolumeClaimControllerResizeInProgress && !hadFinalError(s):
		return last, true // RZ-D8: an uncertain expansion is finished before another size is asked for
	case smaller:
		return wants, true // RZ-D8 after a final error, RZ-D9
	case state != "" || recorded:
		return last, true // RZ-D11a, RZ-D11b
	case hasCondition(s.Claim, corev1.PersistentVolumeClaimFileSystemResizePending):
		return wants, false // RZ-D11c
	}
	return wants, true // RZ-D11c
}

// hadFinalError reports whether the last attempt ended with a final error. It reads the status, so
// that it holds after a restart (RZ-H4): only a final error leaves its condition beside
// ControllerResizeInProgress.
func hadFinalError(s Snapshot) bool {
	return hasCondition(s.Claim, corev1.PersistentVolumeClaimControllerResizeError)
}

func idle(message string) Verdict {
	return nothing{Finding: verdict.Because(verdict.ResizeNotRequested, "%s", message)}
}

// Concerns reports whether a claim may need an action: it requests more than its capacity, or has
// an unfinished expansion.
func Concerns(claim *corev1.PersistentVolumeClaim) bool {
	wants, has := requested(claim), capacity(claim)
	return claim.Spec.VolumeName != "" && (size.Compare(wants, has) > 0 ||
		len(claim.Status.AllocatedResourceStatuses) > 0)
}
