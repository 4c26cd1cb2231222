package binding

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/objects"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// A volume outlives its claim where it is annotated so (8.14, 8.15, 8.17, 8.25). It is offered with
// the data that is on it, to the first claim that fits, to a claim of the previous one's name, or to
// one of another name.

// reuse is what the annotation of a volume asks for; an error for a value that means nothing.
func reuse(pv *corev1.PersistentVolume) (how string, err error) {
	switch how = pv.Annotations[names.AnnReuse]; how {
	case "", names.ReuseAny, names.ReuseSameName:
		return how, nil
	}
	if heir(how).Name != "" {
		return how, nil
	}
	return "", fmt.Errorf(
		"annotation %s: %q is neither %q nor %q, nor the namespace and the name of a claim, as NAMESPACE/NAME",
		names.AnnReuse,
		how,
		names.ReuseSameName,
		names.ReuseAny,
	)
}

// heir is the claim that an annotation names; empty for none.
func heir(how string) types.NamespacedName {
	namespace, name, _ := strings.Cut(how, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// offer takes the volume back for those to whom it is to go.
func offer(pv *corev1.PersistentVolume) Unbind {
	how := pv.Annotations[names.AnnReuse]
	return Unbind{Volume: pv, Whole: how == names.ReuseAny, For: heir(how)}
}

// isReusable reports whether the volume is to be offered again when its claim is gone. One that is
// released and deleted for that may be half gone by now, and of one that is to be scrubbed no claim
// may see the data.
func isReusable(pv *corev1.PersistentVolume) bool {
	how, err := reuse(pv)
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
	if to := heir(pv.Annotations[names.AnnReuse]); to.Name != "" && to != s.Key.Claim {
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
			"To offer it again: kubectl annotate pv %s %s=%s, or =%s for a claim of that name only", ref.Namespace, ref.Name, pv.Name,
			names.AnnReuse, names.ReuseAny, names.ReuseSameName),
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
			`kubectl patch pv %s -p '{"spec":{"claimRef":{"uid":"%s"}}}'`,
		text,
		pv.Name,
		uid,
		pv.Name,
		claim.UID,
	)
}

// abandoned is T2 for a volume whose claim is gone.
func abandoned(s Snapshot, pv *corev1.PersistentVolume) []Action {
	_, err := reuse(pv)
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
	case err != nil:
		return append(release(pv), Tell{
			Volume:  pv,
			Finding: finding{Reason: verdict.ReuseInvalid, Message: err.Error()},
		})
	}
	return release(pv)
}

func describeOffer(former Key, pv *corev1.PersistentVolume) string {
	text := fmt.Sprintf("Claim %q is gone, and the volume is offered again with its data", former)
	if to := heir(pv.Annotations[names.AnnReuse]); to.Name != "" {
		text += fmt.Sprintf(", to claim %q", to)
	}
	return text
}
