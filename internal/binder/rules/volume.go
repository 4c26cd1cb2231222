package binding

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// decideLoose is T2 for a volume that names no claim: it is available.
func decideLoose(s Snapshot) Verdict {
	var actions []Action
	for _, pv := range s.Refs {
		actions = append(actions, migrate(pv)...)
		actions = append(append(actions, available(pv)...), unreadable(pv)...)
	}
	switch {
	case len(s.Refs) == 0:
		return idle(verdict.VolumeGone, "the PersistentVolume does not exist, or names a claim")
	default:
		return deferMigration(nil, with(actions, idle(verdict.VolumeAvailable, "the PersistentVolume is available")))
	}
}

// decideVolumes is T2 for the volumes that name the key's claim, except for what the claim's own
// verdict does. ask says that it must be known first whether a claim is gone: a volume is released
// only if its claim, by uid, is (I3).
func decideVolumes(s Snapshot) (actions []Action, ask bool) {
	for _, pv := range s.Refs {
		some, ask := decideVolume(s, pv)
		if ask {
			return nil, true
		}
		actions = append(append(append(actions, migrate(pv)...), some...), unreadable(pv)...)
	}
	return actions, false
}

func decideVolume(s Snapshot, pv *corev1.PersistentVolume) (actions []Action, ask bool) {
	owner := pv.Spec.ClaimRef.UID
	switch {
	case owner == "": // reserved by name: bound under the claim's verdict, if that takes it
		if s.Claim != nil && takes(s, pv) {
			return nil, false
		}
		return available(pv), false
	case s.Claim != nil && s.Claim.UID == owner:
		// Another process found that this claim is gone, and the cache that has it may be stale: of
		// two leaders of which one is behind, that one would call the volume bound for ever.
		if here := s.Claim.Spec.VolumeName == "" || s.Claim.Spec.VolumeName == pv.Name; here &&
			objects.IsReleasedOrFailed(pv) &&
			!s.ClaimAsked {
			return nil, true
		}
		return decideOwned(s.Claim, pv), false
	case s.gone(owner), s.ClaimAsked:
		return abandoned(s, pv), false
	case objects.IsReleasedOrFailed(pv) && !isReusable(pv): // who wrote so knew
		return release(pv), false
	}
	return nil, true
}

// takes reports whether the claim's verdict is about this volume.
func takes(s Snapshot, pv *corev1.PersistentVolume) bool {
	if s.Claim.Spec.VolumeName != "" {
		return s.Claim.Spec.VolumeName == pv.Name && (!completed(s.Claim) || s.inherits(pv))
	}
	return !completed(s.Claim) && Reserved(s) == pv
}

// decideOwned is T2 for a volume that has the uid of a claim that exists. That the claim is bound
// elsewhere needs no fresh look: a claim's volume is chosen once.
func decideOwned(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) []Action {
	switch {
	case claim.Spec.VolumeName == pv.Name: // T1 finishes the pair
		return nil
	case claim.Spec.VolumeName == "" && isBlock(claim.Spec.VolumeMode) != isBlock(pv.Spec.VolumeMode):
		return []Action{
			Tell{Volume: pv, Finding: finding{Reason: verdict.VolumeUnfit, Message: fmt.Sprintf(
				"Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.",
				claim.Name)}},
			Tell{Claim: claim, Finding: finding{Reason: verdict.VolumeUnfit, Message: fmt.Sprintf(
				"Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.",
				pv.Name)}},
		}
	case claim.Spec.VolumeName == "": // T1 takes it
		return nil
	case isReusable(pv):
		return []Action{offer(pv)}
	case isMadeFor(claim, pv) && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return release(pv) // the claim has another one by now
	}
	return []Action{Unbind{Volume: pv, Whole: boundByController(pv.Annotations)}}
}

// isMadeFor reports whether a provisioner made the volume for the claim. What a binder chose, or
// what is older than the claim, was there before, with data that is not the claim's.
func isMadeFor(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	_, provisioned := pv.Annotations[names.AnnProvisionedBy]
	return provisioned && !boundByController(pv.Annotations) && !pv.CreationTimestamp.Before(&claim.CreationTimestamp)
}

func available(pv *corev1.PersistentVolume) []Action {
	if pv.Status.Phase == corev1.VolumeAvailable {
		return nil
	}
	// That no claim took it meanwhile cannot be tested, so nothing may have changed.
	return []Action{SetVolumePhase{Volume: pv, Phase: corev1.VolumeAvailable, AsSeen: true}}
}

func migrate(pv *corev1.PersistentVolume) []Action {
	if driver, finalizers, wrong := volumeMigration(pv); wrong {
		return []Action{SetMigration{Volume: pv, Driver: driver, Finalizers: finalizers}}
	}
	return nil
}

// release says that no claim can use the volume any more; the provisioner that deletes it waits for
// that (C5). Failed is not taken back, so that an administrator sees it (1.13). A volume that would be
// deleted stays as it is while an annotation of ours cannot be read, which may be meant to keep it.
func release(pv *corev1.PersistentVolume) []Action {
	_, unread := objects.Reuse(pv)
	deletes := pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	if pv.Status.Phase == corev1.VolumeFailed || deletes && unread != nil {
		return nil
	}
	problem := unreclaimable(pv)
	switch {
	case problem != nil:
		return []Action{giveUp(pv, corev1.VolumeFailed, problem.Message), Tell{Volume: pv, Finding: *problem}}
	case pv.Status.Phase == corev1.VolumeReleased:
		return nil
	}
	actions := []Action{giveUp(pv, corev1.VolumeReleased, "")}
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain && pv.DeletionTimestamp == nil {
		actions = append(actions, Tell{Volume: pv, Finding: kept(pv)})
	}
	return actions
}

// giveUp is the phase of a volume that no claim can use any more. Where the reclaim policy then
// deletes it, nothing may have changed: its annotation may just have been set to keep it.
func giveUp(pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) SetVolumePhase {
	deletes := pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	return SetVolumePhase{Volume: pv, Phase: phase, Message: message, AsSeen: deletes}
}

// unreclaimable is why no component will ever do what the reclaim policy says (1.14): there is
// no recycler, and none of the plugins that were a part of Kubernetes.
func unreclaimable(pv *corev1.PersistentVolume) *verdict.Finding {
	if pv.Annotations[names.AnnMigratedTo] != "" {
		return nil
	}
	switch pv.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return nil
	case corev1.PersistentVolumeReclaimRecycle:
		return &finding{Reason: verdict.VolumeNotRecycled, Message: "No recycler plugin found for the volume!"}
	case corev1.PersistentVolumeReclaimDelete:
		return undeletable(pv)
	}
	return &finding{
		Reason:  verdict.ReclaimPolicyUnknown,
		Message: "Volume has unrecognized PersistentVolumeReclaimPolicy",
	}
}

func undeletable(pv *corev1.PersistentVolume) *verdict.Finding {
	by := pv.Annotations[names.AnnProvisionedBy]
	switch {
	case by != "" && Driver(by) != "":
		return nil
	case by != "":
		return &finding{Reason: verdict.VolumeNotDeletable, Message: "no volume plugin matched name: " + by}
	case pv.Spec.CSI != nil:
		return nil
	}
	return &finding{
		Reason: verdict.VolumeNotDeletable,
		Message: fmt.Sprintf(
			"error getting deleter volume plugin for volume %q: no deletable volume plugin matched", pv.Name,
		),
	}
}

// settling describes actions about volumes for the log.
func settling(actions []Action) string {
	var all []string
	for _, action := range actions {
		switch a := action.(type) {
		case SetVolumePhase:
			all = append(all, fmt.Sprintf("the phase of PersistentVolume %q becomes %s", a.Volume.Name, a.Phase))
		case Unbind:
			all = append(all, fmt.Sprintf(
				"PersistentVolume %q is taken back from the claim that it names", a.Volume.Name,
			))
		case SetMigration:
			all = append(all, fmt.Sprintf("migrated-to becomes %q", a.Driver))
		case Tell:
			all = append(all, a.Finding.Message)
		// these are the claim's
		case Reserve, ClaimVolume, Complete, SetClaimStatus, AssignClass, AskProvisioner, HandOver:
		}
	}
	return strings.Join(all, "; ")
}
