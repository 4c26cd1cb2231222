package attributes

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/objects"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// Concerns reports whether a claim may need a modification, or has an unfinished one.
func Concerns(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" &&
		(claim.Status.ModifyVolumeStatus != nil ||
			deref(claim.Spec.VolumeAttributesClassName) != deref(claim.Status.CurrentVolumeAttributesClassName))
}

// Target returns the class that a claim's volume gets next; empty for none. It is the class that
// the claim names, unless the outcome of an earlier modification is unknown: that one is finished
// first (RZ-M5).
func Target(claim *corev1.PersistentVolumeClaim) string {
	named, status := deref(claim.Spec.VolumeAttributesClassName), claim.Status.ModifyVolumeStatus
	switch {
	case status == nil && named == deref(claim.Status.CurrentVolumeAttributesClassName): // RZ-M2
		return ""
	case isPinned(claim):
		return status.TargetVolumeAttributesClassName
	}
	return named
}

// Decide returns what to do for a claim. now is only compared with the time of the next attempt.
func Decide(s Snapshot, now time.Time) Verdict {
	switch {
	case s.Claim == nil:
		return idle("the claim does not exist any more")
	case s.Claim.Spec.VolumeName == "" || s.Claim.Status.Phase != corev1.ClaimBound:
		return idle("the claim is not bound")
	case s.Volume == nil:
		return wait{
			Finding: verdict.Finding{
				Reason:  verdict.ModifyNotRequested,
				Message: "the cache does not have the claim's volume yet",
			},
		}
	case !isOurs(s): // RZ-M1
		return idle("another driver serves the volume")
	case !Concerns(s.Claim):
		return idle("the volume has the VolumeAttributesClass that the claim names")
	}
	target := Target(s.Claim)
	switch {
	case target == "":
		return cancel(s)
	case s.Class == nil:
		return classMissing(s, target)
	case s.Class.DriverName != s.Driver.Name: // RZ-H13
		return classNotOurs(s, target)
	case !s.Driver.Modifies:
		return wait{Finding: verdict.Finding{
			Reason: verdict.ModifyDriverLacks,
			Message: fmt.Sprintf(
				"the driver %s does not have the capability MODIFY_VOLUME, which VAC %q needs",
				s.Driver.Name,
				target,
			),
		}}
	case s.Retry.Class == ClassID(s.Class) && now.Before(s.Retry.NotBefore): // RZ-C5: another class is tried at once
		return wait{
			Finding: verdict.Finding{
				Reason:  verdict.ModifyAwaitsRetry,
				Message: fmt.Sprintf("the last attempt to apply VAC %q failed, and the next one is not due yet", target),
			},
			Until: s.Retry.NotBefore,
		}
	}
	started := verdict.Finding{
		Reason: verdict.ModifyStarted, Message: fmt.Sprintf("external resizer is modifying volume %s with vac %s", s.Claim.Name, target),
	}
	if isUnderWay(s.Claim, target) {
		return do{Finding: started, Actions: []Action{Modify{}}}
	}
	return do{Finding: started, Actions: []Action{Begin{target}, Modify{}}}
}

func isOurs(s Snapshot) bool {
	return objects.IsVolumeOf(s.Volume, s.Claim) &&
		s.Volume.Spec.CSI != nil && s.Volume.Spec.CSI.Driver == s.Driver.Name
}

// isUnderWay reports whether the status names the target as in progress with an unknown outcome, so
// that a retry writes nothing before the call.
func isUnderWay(claim *corev1.PersistentVolumeClaim, target string) bool {
	return isInProgress(claim) && claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName == target &&
		condition(claim, corev1.PersistentVolumeClaimVolumeModifyingVolume) != nil && !hadFinalError(claim)
}

func isInProgress(claim *corev1.PersistentVolumeClaim) bool {
	status := claim.Status.ModifyVolumeStatus
	return status != nil && status.Status == corev1.PersistentVolumeClaimModifyVolumeInProgress
}

// isPinned reports whether the target of the last attempt must be finished before another one is
// sent to the driver (RZ-M5).
func isPinned(claim *corev1.PersistentVolumeClaim) bool {
	return isInProgress(claim) && claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName != "" &&
		(deref(claim.Spec.VolumeAttributesClassName) == "" || !hadFinalError(claim))
}

// hadFinalError reports whether the last attempt ended with a final error. Only such an error
// leaves this message, ours as well as upstream's, and Begin replaces it before the next call. So a
// new leader knows it (RZ-H4).
func hadFinalError(claim *corev1.PersistentVolumeClaim) bool {
	status, c := claim.Status.ModifyVolumeStatus, condition(claim, corev1.PersistentVolumeClaimVolumeModifyingVolume)
	return status != nil && c != nil && c.Message == failedMessage(status.TargetVolumeAttributesClassName)
}

// cancel is RZ-M4: the claim names no class any more, and no modification has an unknown outcome.
func cancel(s Snapshot) Verdict {
	if condition(s.Claim, corev1.PersistentVolumeClaimVolumeModifyingVolume) == nil {
		return idle("the claim names no VolumeAttributesClass any more")
	}
	canceled := verdict.Finding{Reason: verdict.ModifyCanceled, Message: "Cancelled modify."}
	return do{Finding: canceled, Actions: []Action{Cancel{}}, Then: nothing{Finding: canceled}}
}

// classNotOurs waits for a class of the volume's driver (RZ-H13).
func classNotOurs(s Snapshot, target string) Verdict {
	return wait{Finding: verdict.Finding{
		Reason: verdict.ModifyClassNotOurs,
		Message: fmt.Sprintf(
			"VAC %q is for the driver %s, and the volume is of the driver %s",
			target,
			s.Class.DriverName,
			s.Driver.Name,
		),
		Fix: "Name a class of the volume's driver in spec.volumeAttributesClassName",
	}}
}

// classMissing is RZ-M6. The modification goes on when the class appears (RZ-H1).
func classMissing(s Snapshot, target string) Verdict {
	missing := verdict.Finding{
		Reason: verdict.ModifyClassMissing, Message: fmt.Sprintf("VAC %q does not exist.", target),
	}
	status := s.Claim.Status.ModifyVolumeStatus
	if isPinned(s.Claim) || status != nil && status.Status == corev1.PersistentVolumeClaimModifyVolumePending {
		return wait{Finding: missing}
	}
	return do{Finding: missing, Actions: []Action{MarkPending{}}, Then: wait{Finding: missing}}
}

// AfterModify returns what follows after ControllerModifyVolume with the snapshot's class. failure
// is nil for success.
func AfterModify(s Snapshot, failure *Failure) Verdict {
	target := s.Class.Name
	if failure == nil {
		done := verdict.Finding{
			Reason: verdict.ModifyDone, Message: fmt.Sprintf("external resizer modified volume %s with vac %s successfully", s.Claim.Name, target),
		}
		actions := []Action{Finish{target}}
		if deref(s.Volume.Spec.VolumeAttributesClassName) != target {
			actions = slices.Insert(actions, 0, Action(SetVolumeClass{target})) // before the claim: RZ-M10
		}
		return do{Finding: done, Actions: actions, Then: nothing{Finding: done}}
	}
	then := refuse{Finding: verdict.Finding{
		Reason: verdict.ModifyFailed, Code: failure.Code.String(),
		Message: fmt.Sprintf("rpc error: code = %s desc = %s", failure.Code, failure.Message),
	}}
	fail := Fail{target, *failure}
	switch named := deref(s.Claim.Spec.VolumeAttributesClassName); {
	case failure.IsFinal() && named != "" && named != target: // the class of the claim was waiting for this outcome
		return do{Finding: then.Finding, Actions: []Action{fail}, Then: wait{Finding: then.Finding, Until: atOnce}}
	case isInfeasible(*failure):
		then.Reason, then.Retry = verdict.ModifyRefused, verdict.RetrySlowly
		then.Fix = "Name another VolumeAttributesClass in the claim; it is tried at once"
	case !failure.IsFinal():
		then.Message += ". Still modifying to VAC " + target
	}
	return do{Finding: then.Finding, Actions: []Action{fail}, Then: then}
}

// atOnce is a time in the past.
var atOnce = time.Unix(1, 0)

func idle(message string) Verdict {
	return nothing{Finding: verdict.Finding{Reason: verdict.ModifyNotRequested, Message: message}}
}

func deref(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}

// Changed reports whether an input of [Decide] differs between two states of a claim. The status of
// an attempt in progress is not an input, but its removal is (RZ-Q3).
func Changed(old, current *corev1.PersistentVolumeClaim) bool {
	return old.UID != current.UID || old.Spec.VolumeName != current.Spec.VolumeName ||
		old.Status.Phase != current.Status.Phase ||
		deref(old.Spec.VolumeAttributesClassName) != deref(current.Spec.VolumeAttributesClassName) ||
		deref(old.Status.CurrentVolumeAttributesClassName) != deref(current.Status.CurrentVolumeAttributesClassName) ||
		old.Status.ModifyVolumeStatus != nil && current.Status.ModifyVolumeStatus == nil
}
