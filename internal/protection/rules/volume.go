package protection

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// Volume is the snapshot of one PersistentVolume.
type Volume struct {
	Object *corev1.PersistentVolume // nil: it does not exist
	// ColocatedDrivers are the drivers whose provisioner removes this finalizer and its own in one write.
	ColocatedDrivers []string
}

// DecideVolume returns the next step for a PersistentVolume.
func DecideVolume(s Volume, now time.Time) Verdict {
	if s.Object == nil {
		return idle(verdict.VolumeGone, "the PersistentVolume does not exist")
	}
	switch stateOf(s.Object, names.FinalizerPVProtection) {
	case bare:
		if reclaimedHere(s) {
			return wait{
				Finding: finding(
					verdict.VolumeReclaimAwaited,
					"the provisioner deletes the PersistentVolume, whose volume is deleted",
				),
			}
		}
		return actLater(
			AddFinalizer{},
			verdict.VolumeProtected,
			"the PersistentVolume got the finalizer "+names.FinalizerPVProtection,
		)
	case protected:
		return idle(verdict.VolumeProtected, "the PersistentVolume is protected")
	case let:
		return heldByOthers(
			s.Object, verdict.VolumeUnprotected, verdict.VolumeBlockedByFinalizers, "PersistentVolume", now,
		)
	case going:
	}
	switch {
	case InUse(s.Object):
		message := "the PersistentVolume is being deleted and goes when its claim is gone"
		if ref := s.Object.Spec.ClaimRef; ref != nil {
			message += fmt.Sprintf(": %s/%s", ref.Namespace, ref.Name)
		}
		return awaitUsers(
			s.Object, finding(verdict.VolumeInUse, message), finding(verdict.VolumeStillUsed, message), now,
		)
	case slices.Contains(s.ColocatedDrivers, reclaim.Owner(s.Object)) &&
		slices.Contains(s.Object.Finalizers, names.FinalizerVolume):
		// The provisioner's finalizer keeps the volume in any case. Waiting for it saves a write.
		return wait{
			Finding: finding(
				verdict.VolumeReclaimAwaited,
				"the provisioner lets the PersistentVolume go when its volume is deleted",
			),
		}
	}
	return act(
		DropFinalizer{goesAsSeen(s.Object)}, verdict.VolumeUnprotected, "no claim has the PersistentVolume",
	)
}

// reclaimedHere reports whether the provisioner in this process has removed both finalizers and is
// about to delete the object. If it ended in between, it adds its own again when it reclaims the
// volume.
func reclaimedHere(s Volume) bool {
	pv := s.Object
	return slices.Contains(s.ColocatedDrivers, reclaim.Owner(pv)) && pv.Status.Phase == corev1.VolumeReleased &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		!slices.Contains(pv.Finalizers, names.FinalizerVolume)
}

// InUse reports whether the volume is bound or being bound to a claim. Upstream checks the phase alone,
// which is written after the claimRef: there, a volume that was just bound can be removed (3.2). A
// claimRef without the claim's uid is a user's reservation and no use.
func InUse(pv *corev1.PersistentVolume) bool {
	switch pv.Status.Phase {
	case corev1.VolumeBound:
		return true
	case corev1.VolumeReleased, corev1.VolumeFailed:
		return false
	case corev1.VolumePending, corev1.VolumeAvailable:
	}
	return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID != ""
}

// goesAsSeen reports whether the finalizer must be removed with a resourceVersion precondition. A
// volume without a claim may be bound at this moment, and then must stay (3.2, I10). A released volume
// with a further finalizer, such as its provisioner's, is not removed by this write, and the
// provisioner may write it at the same time, so it needs no precondition.
func goesAsSeen(pv *corev1.PersistentVolume) bool {
	isLast := len(pv.Finalizers) == 1
	return isLast || !reclaim.HadClaim(pv)
}
