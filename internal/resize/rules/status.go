package resizing

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
)

// nodeMessage is upstream's message of the condition FileSystemResizePending (RZ-X6).
const nodeMessage = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."

// Apply returns a copy of the claim with its status after an action. The outcome of a call is dropped if the
// status names another size by now, which a new leader has begun.
func Apply(claim *corev1.PersistentVolumeClaim, a Action, now metav1.Time) *corev1.PersistentVolumeClaim {
	changed := claim.DeepCopy()
	st := &changed.Status
	switch a := a.(type) {
	case Begin:
		begin(changed, a.Size, now)
	case Reject:
		begin(changed, a.Size, now)
		fail(st, Fail{Size: a.Size, Message: a.Message, Infeasible: true}, now)
	case HandToNode:
		if !isInFlight(claim, a.Size) || hasExpanded(claim, a.Size) {
			break
		}
		setState(st, corev1.PersistentVolumeClaimNodeResizePending)
		st.Conditions = merged(st.Conditions, newCondition(corev1.PersistentVolumeClaimFileSystemResizePending,
			nodeMessage, now))
		delete(changed.Annotations, names.AnnNodeExpansionNotRequired)
	case Finish:
		if !isInFlight(claim, a.Size) {
			break
		}
		if st.Capacity == nil {
			st.Capacity = corev1.ResourceList{}
		}
		st.Capacity[corev1.ResourceStorage] = a.Capacity
		st.Conditions = replaced(st.Conditions)
		delete(st.AllocatedResourceStatuses, corev1.ResourceStorage)
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[names.AnnNodeExpansionNotRequired] = "true"
	case Fail:
		if !isInFlight(claim, a.Size) {
			break
		}
		fail(st, a, now)
	case ForgetOldSize, Expand, RaiseVolume: // not about the claim
	}
	return changed
}

func begin(claim *corev1.PersistentVolumeClaim, next resource.Quantity, now metav1.Time) {
	st := &claim.Status
	setAllocated(st, next)
	setState(st, corev1.PersistentVolumeClaimControllerResizeInProgress)
	st.Conditions = replaced(st.Conditions, newCondition(corev1.PersistentVolumeClaimResizing, "", now))
	delete(claim.Annotations, names.AnnNodeExpansionNotRequired)
}

func fail(st *corev1.PersistentVolumeClaimStatus, a Fail, now metav1.Time) {
	if a.Infeasible {
		setState(st, corev1.PersistentVolumeClaimControllerResizeInfeasible)
	}
	st.Conditions = merged(st.Conditions, newCondition(
		corev1.PersistentVolumeClaimControllerResizeError, a.Message, now,
	))
}

// hasExpanded reports whether the node has expanded already: it may do so as soon as the
// PersistentVolume has the new capacity, before the claim says that it must.
func hasExpanded(claim *corev1.PersistentVolumeClaim, reached resource.Quantity) bool {
	capacity, known := claim.Status.Capacity[corev1.ResourceStorage]
	return known && size.Compare(capacity, reached) >= 0
}

// isInFlight reports whether the status names the size of the call to the driver.
func isInFlight(claim *corev1.PersistentVolumeClaim, next resource.Quantity) bool {
	last, recorded := allocated(claim)
	return recorded && size.Compare(last, next) == 0
}

func newCondition(
	kind corev1.PersistentVolumeClaimConditionType, message string, now metav1.Time,
) corev1.PersistentVolumeClaimCondition {
	return corev1.PersistentVolumeClaimCondition{
		Type:               kind,
		Status:             corev1.ConditionTrue,
		Message:            message,
		LastTransitionTime: now,
	}
}

// replaced drops all conditions of expansions and adds the given ones; others stay.
func replaced(
	all []corev1.PersistentVolumeClaimCondition, by ...corev1.PersistentVolumeClaimCondition,
) []corev1.PersistentVolumeClaimCondition {
	var out []corev1.PersistentVolumeClaimCondition
	for _, c := range all {
		if !IsResizeCondition(c.Type) {
			out = append(out, c)
		}
	}
	return append(out, by...)
}

// merged replaces the condition of the same type, or adds it.
func merged(
	all []corev1.PersistentVolumeClaimCondition, one corev1.PersistentVolumeClaimCondition,
) []corev1.PersistentVolumeClaimCondition {
	for i := range all {
		if all[i].Type == one.Type {
			all[i] = one
			return all
		}
	}
	return append(all, one)
}

func setAllocated(st *corev1.PersistentVolumeClaimStatus, size resource.Quantity) {
	if st.AllocatedResources == nil {
		st.AllocatedResources = corev1.ResourceList{}
	}
	st.AllocatedResources[corev1.ResourceStorage] = size
}

func setState(st *corev1.PersistentVolumeClaimStatus, state corev1.ClaimResourceStatus) {
	if st.AllocatedResourceStatuses == nil {
		st.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	}
	st.AllocatedResourceStatuses[corev1.ResourceStorage] = state
}
