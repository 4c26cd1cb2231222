package mounting

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
)

// needsExpansion reports whether the node must expand the volume: the claim's status has less than
// the PersistentVolume, or the node has expanded a volume that several nodes have to less (5.9).
func (p *plan) needsExpansion(use Use) bool {
	if use.PV == nil || !p.Driver.Expands || use.ReadOnly || isInfeasible(use.Claim) {
		return false
	}
	capacity := use.PV.Spec.Capacity[corev1.ResourceStorage]
	device, _ := p.Record.Device(use.ID.Device())
	bytes, problem := size.Bytes(capacity)
	if problem == nil && (device.Bytes >= bytes && device.Bytes > 0 || device.Refused == bytes) {
		return false
	}
	have := use.Claim.Status.Capacity[corev1.ResourceStorage]
	if size.Compare(have, capacity) < 0 {
		return true
	}
	if use.Claim.Annotations[names.AnnNodeExpansionNotRequired] == "true" {
		return false
	}
	return device.Bytes > 0
}

func isNodeState(s corev1.ClaimResourceStatus) bool {
	return s == corev1.PersistentVolumeClaimNodeResizePending || s == corev1.PersistentVolumeClaimNodeResizeInProgress
}

func isInfeasible(claim *corev1.PersistentVolumeClaim) bool {
	state := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	return state == corev1.PersistentVolumeClaimNodeResizeInfeasible
}

// ExpansionStep is what the claim's status says of an expansion by the node.
type ExpansionStep int

// The steps.
const (
	ExpansionBegun ExpansionStep = iota
	ExpansionDone
	ExpansionInfeasible
)

// AfterExpansion returns the claim's status as it is after a step. ok is false if the status says so
// already.
func AfterExpansion(
	claim *corev1.PersistentVolumeClaim, step ExpansionStep, bytes int64,
) (status corev1.PersistentVolumeClaimStatus, ok bool) {
	reached := size.Quantity(bytes)
	status = *claim.Status.DeepCopy()
	now := status.AllocatedResourceStatuses[corev1.ResourceStorage]
	set := func(s corev1.ClaimResourceStatus) bool {
		if status.AllocatedResourceStatuses == nil {
			status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
		}
		status.AllocatedResourceStatuses[corev1.ResourceStorage] = s
		return now != s
	}
	switch step {
	case ExpansionBegun:
		return status, set(corev1.PersistentVolumeClaimNodeResizeInProgress)
	case ExpansionInfeasible:
		return status, set(corev1.PersistentVolumeClaimNodeResizeInfeasible)
	case ExpansionDone:
	}
	have := status.Capacity[corev1.ResourceStorage]
	if size.Compare(have, reached) >= 0 && !isNodeState(now) { // another expansion has begun, or none
		return status, false
	}
	if status.Capacity == nil {
		status.Capacity = corev1.ResourceList{}
	}
	if size.Compare(have, reached) < 0 {
		status.Capacity[corev1.ResourceStorage] = reached
	}
	delete(status.AllocatedResourceStatuses, corev1.ResourceStorage)
	var conditions []corev1.PersistentVolumeClaimCondition
	for _, c := range status.Conditions {
		if c.Type != corev1.PersistentVolumeClaimFileSystemResizePending &&
			c.Type != corev1.PersistentVolumeClaimResizing &&
			c.Type != corev1.PersistentVolumeClaimNodeResizeError {
			conditions = append(conditions, c)
		}
	}
	status.Conditions = conditions
	return status, true
}
