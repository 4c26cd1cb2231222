package protection

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ephemeral "github.com/purser-csi/purser/internal/ephemeral/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// Usage is the snapshot for the condition Unused of a claim (KEP-5541, on by default since
// Kubernetes 1.37).
type Usage struct {
	Object *corev1.PersistentVolumeClaim // nil: it does not exist
	Pods   []corev1.Pod                  // cached ones that name it, with or without a node
	Volume *corev1.PersistentVolume      // that the claim names; nil if the cache does not have it
}

// volumeLook is the requeue delay of a claim whose volume the cache does not have: claims and volumes
// come through different watches.
const volumeLook = time.Second

// UnusedCondition returns the condition for a claim, as kube-controller-manager words it.
func UnusedCondition(users []string) corev1.PersistentVolumeClaimCondition {
	if len(users) > 0 {
		return corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionFalse, Reason: "PodUsingPVC",
			Message: "A pod is currently referencing this PVC",
		}
	}
	return corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue, Reason: "NoPodsUsingPVC",
		Message: "No pods are currently referencing this PVC",
	}
}

// DecideUnused decides whether the condition Unused of a claim is written. A claim that is not bound
// has no condition, so that the write does not conflict with the binder's; the condition of a
// terminating claim stays as it is.
//
// A claim whose volume is gone or belongs to another claim is about to be Lost. It gets no condition,
// nor does it from kube-controller-manager, which lists the pods first.
func DecideUnused(s Usage, now time.Time) Verdict {
	switch {
	case s.Object == nil:
		return idle(verdict.ClaimGone, "the claim does not exist any more")
	case !TracksUse(s.Object):
		return idle(verdict.ClaimUseUntracked, "the claim is not bound, or is being deleted")
	}
	if s.Volume == nil || s.Volume.Spec.ClaimRef == nil || s.Volume.Spec.ClaimRef.UID != s.Object.UID {
		return wait{
			Finding: finding(verdict.ClaimUseUntracked, "the claim's volume is not there, or is not its own"),
			Until:   now.Add(volumeLook),
		}
	}
	condition := UnusedCondition(Referrers(s.Pods, s.Object))
	if condition.Status == UnusedStatus(s.Object) {
		return idle(verdict.ClaimUseTracked, "the condition Unused says what is so")
	}
	message := "the condition Unused becomes " + string(condition.Status)
	if UnusedStatus(s.Object) == "" { // as after an upgrade, when no claim has it
		return actLater(SetUnused{condition}, verdict.ClaimUseTracked, message)
	}
	return act(SetUnused{condition}, verdict.ClaimUseTracked, message)
}

// TracksUse reports whether the condition Unused of the claim is kept up to date.
func TracksUse(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp == nil
}

// UnusedStatus returns the status of the claim's condition Unused; empty if it has none.
func UnusedStatus(claim *corev1.PersistentVolumeClaim) corev1.ConditionStatus {
	i := slices.IndexFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimUnused
	})
	if i < 0 {
		return ""
	}
	return claim.Status.Conditions[i].Status
}

// Referrers returns the names of the pods that refer to the claim.
func Referrers(pods []corev1.Pod, claim *corev1.PersistentVolumeClaim) (names []string) {
	for i := range pods {
		if Refers(&pods[i], claim) {
			names = append(names, pods[i].Name)
		}
	}
	return names
}

// Refers reports whether a pod that has not ended names the claim. Other than for the protection of
// claims, a pod without a node counts, and one that has finished does not.
func Refers(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || ShutDown(pod)
	if ended || pod.Namespace != claim.Namespace {
		return false
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name:
			return true
		case v.Ephemeral != nil && ephemeral.ClaimName(pod, v.Name) == claim.Name && metav1.IsControlledBy(claim, pod):
			return true
		}
	}
	return false
}
