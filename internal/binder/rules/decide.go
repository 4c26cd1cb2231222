package binding

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// Decide says what to do for a pair.
func Decide(s Snapshot) Verdict {
	if s.Refusal != nil && s.Refusal.isFinal(s) {
		return refuse{Finding: verdict.Because(verdict.WriteFailed, "%s", s.Refusal.Message)}
	}
	if s.Key.Volume != "" {
		return decideLoose(s)
	}
	strays, ask := decideVolumes(s)
	if ask {
		return asking(s, ReadClaim)
	}
	if s.Claim == nil {
		return with(strays, idle(verdict.ClaimGone, "the claim does not exist"))
	}
	own := decideClaim(s)
	if _, asks := own.(verdict.Read[Action]); asks {
		return own
	}
	if driver, wrong := claimMigration(s.Claim); wrong && !asksProvisioner(own) {
		strays = append([]Action{SetMigration{Claim: s.Claim, Driver: driver}}, strays...)
	}
	return deferMigration(s.Claim, with(append(strays, misplaced(s.Claim)...), own))
}

// deferMigration marks a verdict as deferrable that only sets annotations about migration, for a
// bound claim or a loose volume: no provisioner acts on them until the claim or volume is deleted.
func deferMigration(claim *corev1.PersistentVolumeClaim, v Verdict) Verdict {
	todo, ok := v.(do)
	if !ok || claim != nil && (claim.Status.Phase != corev1.ClaimBound || claim.DeletionTimestamp != nil) {
		return v
	}
	todo.Deferrable = !slices.ContainsFunc(todo.Actions, func(a Action) bool { _, is := a.(SetMigration); return !is })
	return todo
}

// asksProvisioner finds the action that sets the migration right by itself.
func asksProvisioner(v Verdict) bool {
	todo, ok := v.(do)
	return ok && slices.ContainsFunc(todo.Actions, func(a Action) bool { _, asks := a.(AskProvisioner); return asks })
}

// with does the actions about other volumes after what is done for the claim, which a pod may wait
// for.
func with(strays []Action, own Verdict) Verdict {
	if len(strays) == 0 {
		return own
	}
	if first, ok := own.(do); ok {
		first.Actions = append(slices.Clip(first.Actions), strays...)
		return first
	}
	return do{Finding: finding{Reason: verdict.VolumeSettled, Message: settling(strays)}, Actions: strays, Then: own}
}

// decideClaim is T1, the table of a claim that exists.
func decideClaim(s Snapshot) Verdict {
	switch {
	case completed(s.Claim):
		return decideCompleted(s)
	case s.Claim.Spec.VolumeName != "":
		return decideRequested(s)
	}
	return decideUnbound(s)
}

// decideUnbound is T1 for a claim that names no volume (1.6).
func decideUnbound(s Snapshot) Verdict {
	if pv := Reserved(s); pv != nil {
		return take(s, pv)
	}
	deleting := s.Claim.DeletionTimestamp != nil
	delayed := DelaysBinding(s.Class)
	_, node := s.Claim.Annotations[names.AnnSelectedNode]
	switch {
	case deleting:
		return goingWithout()
	case s.Offer != nil && !delayed:
		return reserve(s, take(s, s.Offer))
	case AsksNoClass(s.Claim) && s.Default != nil:
		return assign(s)
	case delayed && !node:
		return pending(s.Claim, awaitPod(s.Pods))
	case objects.ClaimClass(s.Claim) != "" && s.Claim.Status.Phase == corev1.ClaimLost:
		// not provisioned while it is Lost
		return pending(s.Claim, waiting(verdict.ClaimPending, "the claim is not Lost any more"))
	case objects.ClaimClass(s.Claim) != "":
		return provision(s)
	}
	return pending(
		s.Claim,
		waiting(
			verdict.NoVolumeAndNoClass, "no persistent volumes available for this claim and no storage class is set",
		),
	)
}

// Reserved is the best of the volumes that name the claim and fit: one with its uid before one with
// its name only, then one that is to stay, then the smallest, the oldest, the first by name.
func Reserved(s Snapshot) *corev1.PersistentVolume {
	var best *corev1.PersistentVolume
	for _, pv := range s.Refs {
		if (namesClaim(pv, s.Claim) || s.inherits(pv)) && fits(pv, s.Claim) == "" &&
			(best == nil || reservedBefore(s.Claim, pv, best)) {
			best = pv
		}
	}
	return best
}

func reservedBefore(claim *corev1.PersistentVolumeClaim, a, b *corev1.PersistentVolume) bool {
	if given := isGivenTo(a, claim); given != isGivenTo(b, claim) {
		return given
	}
	if stays := a.DeletionTimestamp == nil; stays != (b.DeletionTimestamp == nil) {
		return stays
	}
	return volumeOf(a).before(volumeOf(b))
}

// reserve holds the offered volume before anything is written. A decision that must read first reserves after
// the read.
func reserve(s Snapshot, taking Verdict) Verdict {
	todo, ok := taking.(do)
	if !ok {
		return taking
	}
	todo.Actions = append([]Action{Reserve{s.Offer, s.Claim}}, todo.Actions...)
	return todo
}

func assign(s Snapshot) Verdict {
	f := finding{
		Reason:  verdict.ClassAssigned,
		Message: fmt.Sprintf("the claim gets the default StorageClass %q", s.Default.Name),
	}
	then := waiting(verdict.ClassAwaited, "the claim has a StorageClass now")
	return do{Finding: f, Actions: []Action{AssignClass{s.Claim, s.Default.Name}}, Then: then}
}

// goingWithout is the verdict about a claim that is being deleted: a volume bound now would be
// released at once, and perhaps deleted.
func goingWithout() Verdict {
	return waiting(verdict.ClaimDeleting, "the claim is being deleted and has no volume")
}

// decideRequested is T1 for a claim whose volume the user chose (1.7).
func decideRequested(s Snapshot) Verdict {
	pv := s.Named
	switch {
	case pv == nil:
		return pending(
			s.Claim,
			waiting(verdict.VolumeAwaited, fmt.Sprintf("PersistentVolume %q does not exist", s.Claim.Spec.VolumeName)),
		)
	case namesClaim(pv, s.Claim), s.inherits(pv):
		return take(s, pv)
	case pv.Spec.ClaimRef != nil:
		return pending(
			s.Claim,
			waiting(verdict.VolumeTaken, fmt.Sprintf("volume %q already bound to a different claim.", pv.Name)),
		)
	case s.Claim.DeletionTimestamp != nil:
		return goingWithout()
	}
	if why := satisfies(pv, s.Claim); why != "" {
		return pending(
			s.Claim,
			waiting(verdict.VolumeUnfit, fmt.Sprintf("Cannot bind to requested volume %q: %s", pv.Name, why)),
		)
	}
	return take(s, pv)
}

// take binds a volume that may have no claim yet. One that is deleted when its claim is goes only to
// a claim that is there for certain: given to one that only an old memory has, it would be released
// at once, and with it would go the data that was put there.
func take(s Snapshot, pv *corev1.PersistentVolume) Verdict {
	if !isGivenTo(pv, s.Claim) && !s.ClaimAsked &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		return asking(s, ReadClaim)
	}
	return bind(s.Claim, pv, s.Unused)
}

// decideCompleted is T1 for a claim that was bound before (1.8). What is lost is asked for before
// it is said. A user can write the annotation too, so a free volume must fit the
// claim, unless the status says that it was bound: only controllers write that.
func decideCompleted(s Snapshot) Verdict {
	pv := s.Named
	named := s.Claim.Spec.VolumeName != ""
	switch {
	case named && pv != nil && pv.Spec.ClaimRef == nil && !wasBound(s.Claim):
		return decideRequested(s)
	case named && pv != nil && (pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == s.Claim.UID || s.inherits(pv)):
		return takeAgain(s, pv)
	case s.Claim.Status.Phase == corev1.ClaimLost:
		return waiting(verdict.ClaimStaysLost, "the claim has lost its volume")
	case named && !s.VolumesAsked:
		return asking(s, ReadVolume)
	case !named:
		return lost(s.Claim, verdict.ClaimLost, lostItsReference(s.Claim))
	case pv == nil:
		return lost(
			s.Claim, verdict.ClaimLost, "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
		)
	}
	return lost(s.Claim, verdict.ClaimMisbound, misbound(s.Claim, pv))
}

// takeAgain binds a claim to the volume that it had.
func takeAgain(s Snapshot, pv *corev1.PersistentVolume) Verdict {
	if s.Claim.Status.Phase == corev1.ClaimLost && !s.VolumesAsked {
		// another process released it: the cache may be stale
		return asking(s, ReadVolume)
	}
	return take(s, pv)
}

// lostItsReference says what became of a claim with the annotation and without a volume name.
func lostItsReference(claim *corev1.PersistentVolumeClaim) string {
	if wasBound(claim) {
		return "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
	}
	return "The claim counts as bound and names no PersistentVolume, so it gets none. " +
		objects.AboutBindCompleted(claim)
}

func lost(claim *corev1.PersistentVolumeClaim, reason verdict.Reason, message string) Verdict {
	return do{
		Finding: finding{Reason: verdict.ClaimLosing, Message: "the claim's phase becomes Lost"},
		Actions: []Action{SetClaimStatus{Claim: claim, Status: ClaimStatus{Phase: corev1.ClaimLost, Cleared: true}}},
		Then:    waiting(reason, message),
	}
}

// pending is the verdict, after the status says so too. Nearly always it does: the API server
// creates claims as Pending.
func pending(claim *corev1.PersistentVolumeClaim, then Verdict) Verdict {
	have := claim.Status
	if have.Phase == corev1.ClaimPending && have.AccessModes == nil && have.Capacity == nil &&
		have.CurrentVolumeAttributesClassName == nil {
		return then
	}
	return do{
		Finding: finding{Reason: verdict.ClaimPending, Message: "the claim's phase becomes Pending"},
		Actions: []Action{SetClaimStatus{Claim: claim, Status: ClaimStatus{Phase: corev1.ClaimPending, Cleared: true}}},
		Then:    then,
	}
}

func waiting(reason verdict.Reason, message string) Verdict {
	return wait{Finding: finding{Reason: reason, Message: message}}
}

func idle(reason verdict.Reason, message string) Verdict {
	return nothing{Finding: finding{Reason: reason, Message: message}}
}
