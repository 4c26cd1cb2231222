package protection

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/reclaim"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// Volume is the world around one PersistentVolume.
type Volume struct {
	Object  *corev1.PersistentVolume // nil: it does not exist
	Removed bool                     // this process removed the finalizer, which a stale cache may still show
	// Together are the drivers whose provisioner drops this finalizer together with its own, in one
	// write.
	Together []string
}

// DecideVolume says what to do for a PersistentVolume.
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
		return act(
			AddFinalizer{},
			verdict.VolumeProtected,
			"the PersistentVolume got the finalizer "+names.FinalizerPVProtection,
		)
	case protected:
		return idle(verdict.VolumeProtected, "the PersistentVolume is protected")
	case let:
		return heldByOthers(s.Object, verdict.VolumeUnprotected, verdict.VolumeBlockedByFinalizers, "PersistentVolume", now)
	case going:
		if s.Removed {
			return removed(verdict.VolumeUnprotected, "PersistentVolume")
		}
	}
	switch {
	case InUse(s.Object):
		message := "the PersistentVolume is being deleted and goes when its claim is gone"
		if ref := s.Object.Spec.ClaimRef; ref != nil {
			message += fmt.Sprintf(": %s/%s", ref.Namespace, ref.Name)
		}
		return lingers(s.Object, finding(verdict.VolumeInUse, message), finding(verdict.VolumeStillUsed, message), now)
	case slices.Contains(s.Together, reclaim.Owner(s.Object)) &&
		slices.Contains(s.Object.Finalizers, names.FinalizerVolume):
		// It cannot go before the provisioner is done, so holding it as well costs nothing, and
		// saves a write.
		return wait{
			Finding: finding(
				verdict.VolumeReclaimAwaited,
				"the provisioner lets the PersistentVolume go when its volume is deleted",
			),
		}
	}
	return act(DropFinalizer{}, verdict.VolumeUnprotected, "no claim has the PersistentVolume")
}

// reclaimedHere reports whether the provisioner in this process has taken both finalizers off and
// is about to delete the object. Where it ended in between, it takes up a released volume by
// putting its own on again.
func reclaimedHere(s Volume) bool {
	pv := s.Object
	return slices.Contains(s.Together, reclaim.Owner(pv)) && pv.Status.Phase == corev1.VolumeReleased &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		!slices.Contains(pv.Finalizers, names.FinalizerVolume)
}

// InUse reports whether a claim has the volume, or is just about to get it. Upstream asks for the
// phase alone, which follows after the reference to the claim: a volume that was just given to a
// claim can vanish there (3.2). A reference without the claim's uid is a wish of a user, which
// nothing has come of yet.
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

// GoesAsSeen reports whether the finalizer may be dropped only from a volume in which nothing has
// changed. One that no claim has, be it new or released, may be given to one at this moment, which
// must stop us (3.2, I10); one that still is Released when it is looked at again is let go. A
// released one with another finalizer, as its provisioner does until its volume is deleted,
// does not go with our finalizer, and they may write it at the same moment.
func GoesAsSeen(pv *corev1.PersistentVolume) bool {
	isLast := len(pv.Finalizers) == 1
	return isLast || !reclaim.HadClaim(pv)
}
