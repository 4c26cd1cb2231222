package binding

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// A volume outlives its claim where it is annotated so (8.14, 8.15, 8.17, 8.25). It is offered with
// the data that is on it, to the first claim that fits, to a claim of the previous one's name, or to
// one of another name.

// offer takes the volume back for those to whom it is to go.
func offer(pv *corev1.PersistentVolume) Unbind {
	how := pv.Annotations[names.AnnReuse]
	return Unbind{Volume: pv, Whole: how == names.ReuseAny, For: objects.Heir(how)}
}

// isReusable reports whether the volume is to be offered again when its claim is gone. One that is
// released and deleted for that may be half gone by now, and of one that is to be scrubbed no claim
// may see the data.
func isReusable(pv *corev1.PersistentVolume) bool {
	how, err := objects.Reuse(pv)
	if how == "" || err != nil || pv.DeletionTimestamp != nil {
		return false
	}
	switch pv.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return true
	case corev1.PersistentVolumeReclaimDelete:
		return !objects.IsReleasedOrFailed(pv)
	case corev1.PersistentVolumeReclaimRecycle:
	}
	return false
}

// inherits reports whether the claim may have a volume that was the previous claim's of its name.
func (s Snapshot) inherits(pv *corev1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	if s.Claim == nil || ref == nil || ref.Namespace != s.Claim.Namespace || ref.Name != s.Claim.Name ||
		ref.UID == s.Claim.UID {
		return false
	}
	if to := objects.Heir(pv.Annotations[names.AnnReuse]); to.Name != "" && to != s.Key.Claim {
		return false
	}
	return isReusable(pv) && (ref.UID == "" || s.ClaimAsked || s.gone(ref.UID))
}

// isRestored reports whether the claim and a volume that is deleted with its claim name each other,
// but for the uid of a previous claim: a backup brought both back, or they were made by hand.
// Released, the volume would be deleted, and with it what was restored.
func (s Snapshot) isRestored(pv *corev1.PersistentVolume) bool {
	return s.Claim != nil && completed(s.Claim) && s.Claim.Spec.VolumeName == pv.Name &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// kept says of a volume that its claim is gone, and what there is to do about it.
func kept(pv *corev1.PersistentVolume) finding {
	ref := pv.Spec.ClaimRef
	return finding{
		Reason: verdict.VolumeReleased,
		Message: fmt.Sprintf("Claim \"%s/%s\" is gone. The volume is kept with its data, and no claim gets it. "+
			"To offer it again: %s, or =%s for a claim of that name only", ref.Namespace, ref.Name,
			shell.Command("kubectl annotate pv %s %s=%s", pv.Name, names.AnnReuse, names.ReuseAny),
			names.ReuseSameName),
	}
}

// misbound says of a claim that its volume is another's, or, as after a restore, that of a previous
// claim of its name, and how to mend that.
func misbound(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) string {
	const text = "Two claims are bound to the same volume, this one is bound incorrectly"
	ref := pv.Spec.ClaimRef
	if ref.Namespace != claim.Namespace || ref.Name != claim.Name {
		return text
	}
	uid := "without a uid"
	if ref.UID != "" {
		uid = fmt.Sprintf("with the uid %s", ref.UID)
	}
	return fmt.Sprintf(
		"%s: PersistentVolume %q names a claim of this name %s, as after a restore. If its data is this claim's: "+
			"%s",
		text,
		pv.Name,
		uid,
		shell.Command(`kubectl patch pv %s -p {"spec":{"claimRef":{"uid":"%s"}}}`, pv.Name, string(claim.UID)),
	)
}

// abandoned is T2 for a volume whose claim is gone.
func abandoned(s Snapshot, pv *corev1.PersistentVolume) []Action {
	switch {
	case s.inherits(pv) && takes(s, pv): // T1 does it
		return nil
	case isReusable(pv):
		return []Action{
			offer(pv),
			Tell{Volume: pv, Finding: finding{Reason: verdict.VolumeReused, Message: describeOffer(s.Key, pv)}},
		}
	case s.isRestored(pv): // the claim's event says so
		return nil
	}
	return release(pv)
}

// unreadable emits an event on a volume with an annotation of ours that cannot be read, and not only
// when it would matter: then the claim is gone.
func unreadable(pv *corev1.PersistentVolume) []Action {
	_, err := objects.Reuse(pv)
	if err == nil {
		return nil
	}
	message := err.Error()
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		message += ". The volume is not deleted with its claim until the annotation is valid or removed"
	}
	return []Action{Tell{Volume: pv, Finding: finding{Reason: verdict.ReuseInvalid, Message: message}}}
}

// misplaced emits an event on a claim with the annotation that belongs on its volume.
func misplaced(claim *corev1.PersistentVolumeClaim) []Action {
	err := objects.ReuseOnClaim(claim)
	if err == nil {
		return nil
	}
	return []Action{Tell{Claim: claim, Finding: finding{Reason: verdict.ReuseInvalid, Message: err.Error()}}}
}

func describeOffer(former Key, pv *corev1.PersistentVolume) string {
	text := fmt.Sprintf("Claim %q is gone, and the volume is offered again with its data", former)
	if to := objects.Heir(pv.Annotations[names.AnnReuse]); to.Name != "" {
		text += fmt.Sprintf(", to claim %q", to)
	}
	return text
}
