package expansion

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/names"
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

// Key is one requested size of one claim, since the event is emitted once for each size.
type Key struct {
	types.NamespacedName
	UID  types.UID
	Size int64 // requested, in bytes
}

// Snapshot has the inputs of a decision about one requested size.
type Snapshot struct {
	Key    Key
	Claim  *corev1.PersistentVolumeClaim // nil: it does not exist, or has another uid
	Volume *corev1.PersistentVolume      // that the claim names; nil for none
}

// Action is the only thing to do.
type Action struct{ NameResizer string } // the driver, on the claim

// Decide returns what to do for a claim that requests more than its capacity.
func Decide(s Snapshot) Verdict {
	switch {
	case s.Claim == nil:
		return idle("the claim does not exist any more")
	case Wish(s.Claim) != s.Key.Size:
		return idle("the claim asks for another size by now")
	case !Grows(s.Claim):
		return idle("the claim has what it asks for, or has no volume")
	case !holds(s.Volume, s.Claim):
		return refuse{Finding: verdict.Finding{
			Reason:  verdict.ExpansionNotReady,
			Message: fmt.Sprintf("persistent Volume is not bound to PVC being updated : %s/%s", s.Claim.Namespace, s.Claim.Name),
		}}
	}
	plugin, driver := migrated(s.Volume)
	if driver == "" {
		return awaited(verdict.ExpansionAwaited, "waiting for an external controller to expand this PVC")
	}
	then := awaited(
		verdict.ExpansionMigrated,
		fmt.Sprintf("CSI migration enabled for %s; waiting for external resizer to expand the pvc", plugin),
	)
	if s.Claim.Annotations[names.AnnStorageResizer] == driver {
		return then
	}
	return do{Finding: then.Because(), Actions: []Action{{NameResizer: driver}}, Then: then}
}

// Wish returns the requested size of a claim.
func Wish(claim *corev1.PersistentVolumeClaim) int64 {
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return size.Value()
}

// Grows reports whether a bound claim requests more than its capacity.
func Grows(claim *corev1.PersistentVolumeClaim) bool {
	has := claim.Status.Capacity[corev1.ResourceStorage]
	return claim.Status.Phase == corev1.ClaimBound && Wish(claim) > has.Value()
}

func holds(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	if pv == nil || pv.Spec.ClaimRef == nil {
		return false
	}
	return pv.Spec.ClaimRef.Namespace == claim.Namespace && pv.Spec.ClaimRef.UID == claim.UID
}

func idle(message string) Verdict {
	return nothing{Finding: verdict.Finding{Reason: verdict.ExpansionNotRequested, Message: message}}
}

func awaited(reason verdict.Reason, message string) Verdict {
	return wait{Finding: verdict.Finding{Reason: reason, Message: message}}
}
