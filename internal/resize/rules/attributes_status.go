package resizing

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The messages of the condition ModifyingVolume are upstream's (RZ-M7, RZ-M11). [attributesHadFinalError]
// reads the second one.
func startedMessage(target string) string {
	return fmt.Sprintf("Modifying volume to %q is in progress.", target)
}

func failedMessage(target string) string {
	return fmt.Sprintf("Modifying volume to %q failed. Waiting for retry.", target)
}

func uncertainMessage(target string) string {
	return fmt.Sprintf("Modifying volume to %q is still in progress.", target)
}

// AttributesApply returns a copy of the claim with its status after an action.
func AttributesApply(
	claim *corev1.PersistentVolumeClaim, a AttributesAction, now metav1.Time,
) *corev1.PersistentVolumeClaim {
	changed := claim.DeepCopy()
	st := &changed.Status
	switch a := a.(type) {
	case MarkPending:
		if st.ModifyVolumeStatus == nil {
			st.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{}
		}
		st.ModifyVolumeStatus.Status = corev1.PersistentVolumeClaimModifyVolumePending
	case AttributesBegin:
		attributesBegin(st, a.Target, now)
	case AttributesReject:
		attributesBegin(st, a.Target, now)
		attributesFail(st, a.Failure, now)
	case AttributesFinish:
		if !isTarget(st, a.Target) {
			break
		}
		st.CurrentVolumeAttributesClassName, st.ModifyVolumeStatus = &a.Target, nil
		remove(
			st, corev1.PersistentVolumeClaimVolumeModifyingVolume, corev1.PersistentVolumeClaimVolumeModifyVolumeError,
		)
	case AttributesFail:
		if isTarget(st, a.Target) {
			attributesFail(st, a.Failure, now)
		}
	case Cancel:
		remove(st, corev1.PersistentVolumeClaimVolumeModifyingVolume)
	case Modify, SetVolumeClass: // not about the claim
	}
	return changed
}

// isTarget reports whether the status still names the class of the call to the driver. A new leader
// may have finished that modification meanwhile, and begun another one.
func isTarget(st *corev1.PersistentVolumeClaimStatus, target string) bool {
	return st.ModifyVolumeStatus != nil && st.ModifyVolumeStatus.TargetVolumeAttributesClassName == target
}

func attributesBegin(st *corev1.PersistentVolumeClaimStatus, target string, now metav1.Time) {
	st.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{
		Status: corev1.PersistentVolumeClaimModifyVolumeInProgress, TargetVolumeAttributesClassName: target,
	}
	merge(st, corev1.PersistentVolumeClaimVolumeModifyingVolume, "", startedMessage(target), now)
}

func attributesFail(st *corev1.PersistentVolumeClaimStatus, f Failure, now metav1.Time) {
	target, text := st.ModifyVolumeStatus.TargetVolumeAttributesClassName, uncertainMessage
	st.ModifyVolumeStatus.Status = corev1.PersistentVolumeClaimModifyVolumeInProgress
	if f.IsFinal() {
		text = failedMessage
	}
	if attributesIsInfeasible(f) {
		st.ModifyVolumeStatus.Status = corev1.PersistentVolumeClaimModifyVolumeInfeasible
	}
	merge(st, corev1.PersistentVolumeClaimVolumeModifyingVolume, "", text(target), now)
	merge(st, corev1.PersistentVolumeClaimVolumeModifyVolumeError, f.CodeName(), f.Message, now)
}

func attributesCondition(
	claim *corev1.PersistentVolumeClaim, kind corev1.PersistentVolumeClaimConditionType,
) *corev1.PersistentVolumeClaimCondition {
	for i := range claim.Status.Conditions {
		if c := &claim.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// merge sets a condition. lastTransitionTime changes only with the status or the reason (RZ-M11).
// An equal condition is not changed.
func merge(
	st *corev1.PersistentVolumeClaimStatus,
	kind corev1.PersistentVolumeClaimConditionType,
	reason, message string,
	now metav1.Time,
) {
	fresh := corev1.PersistentVolumeClaimCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastProbeTime: now,
		LastTransitionTime: now,
	}
	for i := range st.Conditions {
		old := &st.Conditions[i]
		if old.Type != kind {
			continue
		}
		if old.Status == fresh.Status && old.Reason == reason {
			if old.Message == message {
				return
			}
			fresh.LastTransitionTime = old.LastTransitionTime
		}
		*old = fresh
		return
	}
	st.Conditions = append(st.Conditions, fresh)
}

func remove(st *corev1.PersistentVolumeClaimStatus, kinds ...corev1.PersistentVolumeClaimConditionType) {
	st.Conditions = slices.DeleteFunc(st.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return slices.Contains(kinds, c.Type)
	})
}
