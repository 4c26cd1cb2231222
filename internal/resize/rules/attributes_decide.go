package resizing

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// AttributesConcerns reports whether a claim may need a modification, or has an unfinished one.
func AttributesConcerns(claim *corev1.PersistentVolumeClaim) bool {
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

// DecideAttributes returns what to do for a claim. now is only compared with the time of the next attempt.
func DecideAttributes(s AttributesSnapshot, now time.Time) AttributesVerdict {
	if notNow := noAttributes(s); notNow != nil {
		return notNow
	}
	target := Target(s.Claim)
	switch {
	case target == "":
		return cancel(s)
	case s.ClassRead != target:
		return verdict.MustRead[AttributesAction](verdict.Ref{What: ReadClass, Name: target})
	case s.Class == nil:
		return classMissing(s, target)
	case s.Class.DriverName != s.Driver.Name: // RZ-H13
		return classNotOurs(s, target)
	case !s.Driver.Modifies:
		return attributesWait{Finding: verdict.Because(
			verdict.ModifyDriverLacks,
			"the driver %s does not have the capability MODIFY_VOLUME, which VAC %q needs", s.Driver.Name, target,
		)}
	case s.Retry.Class == ClassID(s.Class) && now.Before(s.Retry.NotBefore): // RZ-C5: another class is tried at once
		return attributesWait{
			Finding: verdict.Because(
				verdict.WaitForRetry,
				"the last attempt to apply VAC %q failed, and the next one is not due yet", target,
			),
			Until: s.Retry.NotBefore,
		}
	}
	started := verdict.Because(
		verdict.ModifyStarted, "external resizer is modifying volume %s with vac %s", s.Claim.Name, target,
	)
	if isUnderWay(s.Claim, target) {
		return attributesDo{Finding: started, Actions: []AttributesAction{Modify{}}}
	}
	return attributesDo{Finding: started, Actions: []AttributesAction{AttributesBegin{target}, Modify{}}}
}

// noAttributes returns why there is nothing to modify; nil if there is.
func noAttributes(s AttributesSnapshot) AttributesVerdict {
	switch {
	case s.Claim == nil:
		return attributesIdle("the claim does not exist any more")
	case s.Claim.Spec.VolumeName == "" || s.Claim.Status.Phase != corev1.ClaimBound:
		return attributesIdle("the claim is not bound")
	case s.Volume == nil:
		return attributesWait{
			Finding: verdict.Because(verdict.ResizeNotRequested, "the cache does not have the claim's volume yet"),
		}
	case !attributesIsOurs(s): // RZ-M1
		return attributesIdle("another driver serves the volume")
	case s.Elsewhere:
		return attributesIdle(onAnotherNode)
	case !AttributesConcerns(s.Claim):
		return attributesIdle("the volume has the VolumeAttributesClass that the claim names")
	}
	return nil
}

func attributesIsOurs(s AttributesSnapshot) bool {
	return objects.IsVolumeOf(s.Volume, s.Claim) &&
		s.Volume.Spec.CSI != nil && s.Volume.Spec.CSI.Driver == s.Driver.Name
}

// isUnderWay reports whether the status names the target as in progress with an unknown outcome, so
// that a retry writes nothing before the call.
func isUnderWay(claim *corev1.PersistentVolumeClaim, target string) bool {
	return isInProgress(claim) && claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName == target &&
		attributesCondition(claim, corev1.PersistentVolumeClaimVolumeModifyingVolume) != nil &&
		!attributesHadFinalError(claim)
}

func isInProgress(claim *corev1.PersistentVolumeClaim) bool {
	status := claim.Status.ModifyVolumeStatus
	return status != nil && status.Status == corev1.PersistentVolumeClaimModifyVolumeInProgress
}

// isPinned reports whether the target of the last attempt must be finished before another one is
// sent to the driver (RZ-M5).
func isPinned(claim *corev1.PersistentVolumeClaim) bool {
	return isInProgress(claim) && claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName != "" &&
		(deref(claim.Spec.VolumeAttributesClassName) == "" || !attributesHadFinalError(claim))
}

// attributesHadFinalError reports whether the last attempt ended with a final error. Only such an error
// leaves this message, ours as well as upstream's, and Begin replaces it before the next call. So a
// new leader knows it (RZ-H4).
func attributesHadFinalError(claim *corev1.PersistentVolumeClaim) bool {
	status := claim.Status.ModifyVolumeStatus
	c := attributesCondition(claim, corev1.PersistentVolumeClaimVolumeModifyingVolume)
	return status != nil && c != nil && c.Message == failedMessage(status.TargetVolumeAttributesClassName)
}

// cancel is RZ-M4: the claim names no class any more, and no modification has an unknown outcome.
func cancel(s AttributesSnapshot) AttributesVerdict {
	if attributesCondition(s.Claim, corev1.PersistentVolumeClaimVolumeModifyingVolume) == nil {
		return attributesIdle("the claim names no VolumeAttributesClass any more")
	}
	canceled := verdict.Because(verdict.ModifyCanceled, "Cancelled modify.")
	return attributesDo{
		Finding: canceled, Actions: []AttributesAction{Cancel{}}, Then: attributesNothing{Finding: canceled},
	}
}

// classNotOurs refuses a class of another driver (RZ-H13), with the status that upstream writes when
// the driver refuses its parameters (RZ-M11).
func classNotOurs(s AttributesSnapshot, target string) AttributesVerdict {
	because := verdict.Finding{
		Reason: verdict.ModifyClassNotOurs,
		Message: fmt.Sprintf(
			"VAC %q is for the driver %s, and the volume is of the driver %s",
			target,
			s.Class.DriverName,
			s.Driver.Name,
		),
		Fix: otherClass(s, "a class of the volume's driver"),
	}
	then := attributesWait{Finding: because}
	failure := Failure{Code: codes.InvalidArgument, Message: because.Message}
	reject := AttributesReject{AttributesFail{target, failure}}
	if isRejected(s.Claim, reject) {
		return then
	}
	if deref(s.Claim.Spec.VolumeAttributesClassName) != target { // the claim's class was waiting for this one
		then.Until = atOnce
	}
	return attributesDo{Finding: because, Actions: []AttributesAction{reject}, Then: then}
}

// isRejected reports whether the status says already what the action writes.
func isRejected(claim *corev1.PersistentVolumeClaim, a AttributesReject) bool {
	status := claim.Status.ModifyVolumeStatus
	c := attributesCondition(claim, corev1.PersistentVolumeClaimVolumeModifyVolumeError)
	return status != nil && status.Status == corev1.PersistentVolumeClaimModifyVolumeInfeasible &&
		status.TargetVolumeAttributesClassName == a.Target && c != nil && c.Message == a.Failure.Message &&
		c.Reason == a.Failure.CodeName()
}

// classMissing is RZ-M6. The modification goes on when the class appears (RZ-H1).
func classMissing(s AttributesSnapshot, target string) AttributesVerdict {
	missing := verdict.Finding{
		Reason: verdict.ModifyClassMissing, Message: fmt.Sprintf("VAC %q does not exist.", target),
		Fix: "Create it. Or: " + otherClass(s, "another class"),
	}
	status := s.Claim.Status.ModifyVolumeStatus
	if isPinned(s.Claim) || status != nil && status.Status == corev1.PersistentVolumeClaimModifyVolumePending {
		return attributesWait{Finding: missing}
	}
	return attributesDo{
		Finding: missing, Actions: []AttributesAction{MarkPending{}}, Then: attributesWait{Finding: missing},
	}
}

// ModifyAnswer is the outcome of ControllerModifyVolume. Its zero value is success.
type ModifyAnswer struct {
	Failure  *Failure
	Unsent   string    // why the call could not be made
	BusyTill time.Time // when the call is tried again that another call for the volume kept from being made (RZ-H17)
}

// AfterModify returns what follows after ControllerModifyVolume with the snapshot's class.
func AfterModify(s AttributesSnapshot, answer ModifyAnswer) AttributesVerdict {
	switch {
	case !answer.BusyTill.IsZero():
		return attributesWait{
			Finding: verdict.Because(verdict.WaitForRetry, "another call for the volume is in flight"),
			Until:   answer.BusyTill,
		}
	case answer.Unsent != "":
		return attributesRefuse{Finding: verdict.Because(verdict.ModifyFailed, "%s", answer.Unsent)}
	}
	target, failure := s.Class.Name, answer.Failure
	if failure == nil {
		done := verdict.Because(
			verdict.ModifyDone, "external resizer modified volume %s with vac %s successfully", s.Claim.Name, target,
		)
		actions := []AttributesAction{AttributesFinish{target}}
		if deref(s.Volume.Spec.VolumeAttributesClassName) != target {
			actions = slices.Insert(actions, 0, AttributesAction(SetVolumeClass{target})) // before the claim: RZ-M10
		}
		return attributesDo{Finding: done, Actions: actions, Then: attributesNothing{Finding: done}}
	}
	then := attributesRefuse{Finding: verdict.Finding{
		Reason: verdict.ModifyFailed, Code: failure.CodeName(), Message: failure.Words(),
	}}
	fail := AttributesFail{target, *failure}
	switch named := deref(s.Claim.Spec.VolumeAttributesClassName); {
	case failure.IsFinal() && named != "" && named != target: // the class of the claim was waiting for this outcome
		return attributesDo{
			Finding: then.Finding, Actions: []AttributesAction{fail},
			Then: attributesWait{Finding: then.Finding, Until: atOnce},
		}
	case attributesIsInfeasible(*failure):
		then.Reason, then.Retry = verdict.ModifyRefused, verdict.RetrySlowly
		then.Fix = otherClass(s, "another class") + "; it is tried at once"
	case !failure.IsFinal():
		then.Message += ". Still modifying to VAC " + target
	default:
		then.Fix = otherClass(s, "another class")
	}
	return attributesDo{Finding: then.Finding, Actions: []AttributesAction{fail}, Then: then}
}

// otherClass says which classes a claim can name in place of one that its volume cannot get.
func otherClass(s AttributesSnapshot, other string) string {
	former := deref(s.Claim.Status.CurrentVolumeAttributesClassName)
	if former == "" {
		return fmt.Sprintf("Name %s in spec.volumeAttributesClassName, or none, as before", other)
	}
	return fmt.Sprintf("Name %s in spec.volumeAttributesClassName, or %q as before", other, former)
}

// atOnce is a time in the past.
var atOnce = time.Unix(1, 0)

func attributesIdle(message string) AttributesVerdict {
	return attributesNothing{Finding: verdict.Because(verdict.ResizeNotRequested, "%s", message)}
}

func deref(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}

// Changed reports whether an input of [DecideAttributes] differs between two states of a claim. The status of
// an attempt in progress is not an input, but its removal is (RZ-Q3).
func Changed(old, current *corev1.PersistentVolumeClaim) bool {
	return old.UID != current.UID || old.Spec.VolumeName != current.Spec.VolumeName ||
		old.Status.Phase != current.Status.Phase ||
		deref(old.Spec.VolumeAttributesClassName) != deref(current.Spec.VolumeAttributesClassName) ||
		deref(old.Status.CurrentVolumeAttributesClassName) != deref(current.Status.CurrentVolumeAttributesClassName) ||
		old.Status.ModifyVolumeStatus != nil && current.Status.ModifyVolumeStatus == nil
}
