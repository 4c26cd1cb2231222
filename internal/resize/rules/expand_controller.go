package resizing

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// ExpansionVerdict is the decision of this package.
type ExpansionVerdict = verdict.Verdict[ExpansionAction]

type (
	expansionNothing = verdict.Nothing[ExpansionAction]
	expansionWait    = verdict.Wait[ExpansionAction]
	expansionRefuse  = verdict.Refuse[ExpansionAction]
	expansionDo      = verdict.Do[ExpansionAction]
)

// Key is one requested size of one claim, since the event is emitted once for each size.
type Key struct {
	types.NamespacedName
	UID  types.UID
	Size string // requested
}

// ExpansionSnapshot has the inputs of a decision about one requested size.
type ExpansionSnapshot struct {
	Key    Key
	Claim  *corev1.PersistentVolumeClaim // nil: it does not exist, or has another uid
	Volume *corev1.PersistentVolume      // that the claim names; nil for none
}

// ExpansionAction is the only thing to do.
type ExpansionAction struct{ NameResizer string } // the driver, on the claim

// DecideExpansion returns what to do for a claim that requests more than its capacity.
func DecideExpansion(s ExpansionSnapshot) ExpansionVerdict {
	switch {
	case s.Claim == nil:
		return expansionIdle("the claim does not exist any more")
	case Wish(s.Claim) != s.Key.Size:
		return expansionIdle("the claim asks for another size by now")
	case !Grows(s.Claim):
		return expansionIdle("the claim has what it asks for, or has no volume")
	case !holds(s.Volume, s.Claim):
		return expansionRefuse{Finding: verdict.Because(
			verdict.ExpansionNotReady,
			"persistent Volume is not bound to PVC being updated : %s/%s", s.Claim.Namespace, s.Claim.Name,
		)}
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
	return expansionDo{Finding: then.Because(), Actions: []ExpansionAction{{NameResizer: driver}}, Then: then}
}

// Wish returns the requested size of a claim.
func Wish(claim *corev1.PersistentVolumeClaim) string {
	wants := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return wants.String()
}

// Grows reports whether a bound claim requests more than its capacity.
func Grows(claim *corev1.PersistentVolumeClaim) bool {
	wants, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	return claim.Status.Phase == corev1.ClaimBound && size.Compare(wants, has) > 0
}

func holds(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	if pv == nil || pv.Spec.ClaimRef == nil {
		return false
	}
	return pv.Spec.ClaimRef.Namespace == claim.Namespace && pv.Spec.ClaimRef.UID == claim.UID
}

func expansionIdle(message string) ExpansionVerdict {
	return expansionNothing{Finding: verdict.Because(verdict.ResizeNotRequested, "%s", message)}
}

func awaited(reason verdict.Reason, message string) ExpansionVerdict {
	return expansionWait{Finding: verdict.Because(reason, "%s", message)}
}
