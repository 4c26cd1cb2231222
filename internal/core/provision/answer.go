package provision

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/secretref"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// Answer is how a call to the driver ended.
type Answer struct {
	Volume  *csi.Volume // of the response; nil when there is none
	Code    codes.Code  // OK when the call succeeded
	Message string      // the driver's words otherwise, without secret values
	// Foreign says that the error did not come from gRPC, so that nothing is known of the call
	// (C-44).
	Foreign bool
}

// AfterCreate says what the answer to CreateVolume means for the claim.
func AfterCreate(s Snapshot, sent CreateVolume, a Answer) Verdict {
	if a.Code != codes.OK || a.Foreign {
		return afterFailedCreate(s, sent, a)
	}
	if a.Volume.GetVolumeId() == "" { // C-70, H-10
		return refuse{Finding: verdict.Finding{
			Reason:  verdict.CreateResponseInvalid,
			Message: fmt.Sprintf("CSI driver %q answered CreateVolume without a volume", s.Driver.Name),
		}}
	}
	if why := unwanted(s); why != nil {
		return discardAnswered(s, sent, a.Volume.GetVolumeId(), why)
	}
	// C-71, H-2: the record stays until the volume is really gone
	if unfit := misfit(s, sent.Request, a.Volume); unfit != "" {
		return discardAnswered(s, sent, a.Volume.GetVolumeId(), refuse{Finding: verdict.Finding{
			Reason:  verdict.CreateResponseInvalid,
			Message: fmt.Sprintf("CSI driver %q: %s; the volume was deleted again", s.Driver.Name, unfit),
		}})
	}
	pv, err := asMigrated(s, NewVolume(s, sent, a.Volume))
	if err != nil {
		return untranslated(s, sent, a.Volume.GetVolumeId(), err)
	}
	return do{
		Finding: verdict.Finding{Reason: verdict.VolumeCreated, Message: "the driver created volume " + pv.Name},
		Actions: []Action{WriteVolume{pv}, Settle{}},
		Then:    provisioned(pv),
	}
}

// unwanted says why there is no use for the volume any more, and nil when there is. A class of ours
// is needed to describe it: the claim goes on by itself when one appears.
func unwanted(s Snapshot) Verdict {
	if !wants(s) {
		return idle(verdict.CleanedUp, "the claim does not want the volume any more, it was deleted again")
	}
	return checkClass(s)
}

// wants reports whether there is a claim that goes on wanting a volume.
func wants(s Snapshot) bool {
	return s.Claim != nil && s.Claim.DeletionTimestamp == nil && s.Claim.Spec.VolumeName == "" && !hasAnother(s) &&
		isForThisNode(s)
}

// discardAnswered deletes the volume that CreateVolume was answered with. Of a previous leader's
// entry the handle is noted first, and deleted when that leader's calls must have ended.
func discardAnswered(s Snapshot, sent CreateVolume, handle string, then Verdict) Verdict {
	if s.Pending == nil || s.Pending.CallsEnd.IsZero() {
		return discard(s, sent.Request.GetName(), handle, sent.Secrets, then)
	}
	waits := untilCallsEnd(s)
	return do{Finding: waits.Because(), Actions: []Action{Note{intent.Known{Handle: handle}}}, Then: waits}
}

func discard(s Snapshot, name, handle string, secrets secretref.Set, then Verdict) Verdict {
	return do{
		Finding: then.Because(),
		Actions: []Action{DiscardVolume{
			Name: name, Handle: handle, Secret: secrets.Of(secretref.Deletion),
			Announce: s.Claim != nil && s.Claim.DeletionTimestamp == nil,
		}, Settle{}},
		Then: then,
	}
}

// IsNeeded says what follows when there is a PersistentVolume for what was to be discarded. Under
// the name of the request, an earlier attempt wrote it, it is in use as like as not, and whether it
// goes is for the reclaim policy. Among those that share the handle, the driver has answered with
// the volume of another claim, as where a class stands for one share (D-37). It returns nil when no
// object needs the volume.
func IsNeeded(s Snapshot, a DiscardVolume, now *corev1.PersistentVolume, sharing []*corev1.PersistentVolume) Verdict {
	if now == nil && s.Options.Node.Name != "" { // another node's, which shares the handle
		if i := slices.IndexFunc(sharing, func(pv *corev1.PersistentVolume) bool { return pv.Name == a.Name }); i >= 0 {
			now = sharing[i]
		}
	}
	now = asCSI(now)
	if now != nil && now.Spec.CSI != nil && now.Spec.CSI.Driver == s.Driver.Name {
		switch {
		case now.Spec.CSI.VolumeHandle == a.Handle:
			return settled(verdict.VolumeExists, "PersistentVolume "+now.Name+" exists")
		case belongsTo(now, s.Key) && !isGoing(now):
			return keepBoth(now, a.Handle)
		}
	}
	for _, other := range sharing {
		if other.Name != a.Name {
			return forget(verdict.Finding{Reason: verdict.VolumeConflict, Message: fmt.Sprintf(
				"CSI driver %q answered with volume %q, which is that of PersistentVolume %q. It is not deleted",
				s.Driver.Name,
				a.Handle,
				other.Name,
			)})
		}
	}
	return nil
}

// keepBoth forgets a second volume for a claim that has one, and says so.
func keepBoth(have *corev1.PersistentVolume, handle string) Verdict {
	return forget(doubled(have, handle))
}

// second is about a volume that was made when that of the PersistentVolume was deleted already, or
// is about to be. Whatever data it has, they are to go.
func second(have *corev1.PersistentVolume, handle string) Verdict {
	why := verdict.Finding{Reason: verdict.VolumeConflict, Message: fmt.Sprintf(
		"CSI driver %q answered with volume %q when PersistentVolume %q was released. It is deleted too",
		have.Spec.CSI.Driver,
		handle,
		have.Name,
	)}
	return do{Finding: why, Actions: []Action{Note{intent.Known{Handle: handle}}}, Then: refuse{Finding: why}}
}

// isGoing reports whether the claim of a PersistentVolume is gone, and its volume is to be deleted.
func isGoing(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeReleased &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

func forget(why verdict.Finding) Verdict {
	return do{Finding: why, Actions: []Action{Settle{}}, Then: refuse{Finding: why}}
}

func provisioned(pv *corev1.PersistentVolume) Verdict {
	return idle(verdict.VolumeProvisioned, "Successfully provisioned volume "+pv.Name) // EV-5
}

// misfit compares the volume with the request; empty means that it fits.
func misfit(s Snapshot, request *csi.CreateVolumeRequest, created *csi.Volume) string {
	required := request.GetCapacityRange().GetRequiredBytes()
	if got := created.GetCapacityBytes(); got != 0 && got < required {
		return fmt.Sprintf("created volume has %d bytes, less than the %d bytes that the claim asks for", got, required)
	}
	if strings.ContainsFunc(created.GetVolumeId(), unicode.IsControl) { // it would go into commands and logs of others
		return fmt.Sprintf("created volume has the id %q, with control characters", created.GetVolumeId())
	}
	return cmp.Or(hasContent(request, created), hasAttributes(s, request))
}

// Written is how the creation of a PersistentVolume failed.
type Written struct {
	Existing *corev1.PersistentVolume // the object in the way, when the name was taken
	Reason   metav1.StatusReason      // of the API server's error; empty when there was no answer
	Message  string                   // the API server's words
	Refused  bool                     // the API server answered, and would answer the same again
}

// IsUnconfirmed reports whether the PersistentVolume may exist by this write or by an earlier one:
// there was no answer, or the name is taken. Then its volume must not be deleted (D-37).
func (w Written) IsUnconfirmed() bool {
	return !w.Refused || w.Reason == metav1.StatusReasonAlreadyExists
}

// isRejected reports whether the API server refuses the object itself, so that a later write of it
// will fail too (H-3).
func (w Written) isRejected() bool {
	switch w.Reason {
	case metav1.StatusReasonInvalid, metav1.StatusReasonForbidden, metav1.StatusReasonBadRequest:
		return true
	default:
		return false
	}
}

// AfterWrite says what a failed creation of the PersistentVolume means. The record stays unless the
// volume is known to have its PersistentVolume: the volume exists and must not be forgotten (H-3).
func AfterWrite(want *corev1.PersistentVolume, w Written) Verdict {
	want, w.Existing = asCSI(want), asCSI(w.Existing)
	switch {
	case w.Existing != nil && describesSame(want, w.Existing): // C-24, compared (H-5)
		done := provisioned(want)
		return do{Finding: done.Because(), Actions: []Action{Settle{}}, Then: done}
	case w.Existing != nil && isTwin(want, w.Existing) && isGoing(w.Existing):
		return second(w.Existing, want.Spec.CSI.VolumeHandle)
	case w.Existing != nil && isTwin(want, w.Existing):
		return keepBoth(w.Existing, want.Spec.CSI.VolumeHandle)
	case w.Existing != nil:
		return refuse{Finding: conflict(w.Existing, "it is for another claim or another volume")}
	case w.isRejected():
		return refuse{Finding: verdict.Finding{
			Reason:  verdict.VolumeRejected,
			Message: fmt.Sprintf("volume is created, but its PersistentVolume %q is refused: %s", want.Name, w.Message),
		}}
	}
	return refuse{
		Finding: verdict.Finding{Reason: verdict.WriteFailed, Message: "creating PersistentVolume: " + w.Message},
	}
}

func describesSame(want, have *corev1.PersistentVolume) bool {
	return isTwin(want, have) && have.Spec.CSI.VolumeHandle == want.Spec.CSI.VolumeHandle
}

// isTwin reports whether both are of the same driver and for the same claim.
func isTwin(want, have *corev1.PersistentVolume) bool {
	return have.Spec.CSI != nil && have.Spec.ClaimRef != nil &&
		have.Spec.CSI.Driver == want.Spec.CSI.Driver && have.Spec.ClaimRef.UID == want.Spec.ClaimRef.UID
}

// AfterDiscard says what a failed deletion of an unwanted volume means: the record stays, and with
// it the handle, so that the deletion is tried again. Where that is forgotten, CreateVolume with
// the same name finds the same volume again (H-14).
func AfterDiscard(handle string, a Answer) Verdict {
	failed := refuse{Finding: verdict.Finding{
		Reason:  verdict.CreateResponseInvalid,
		Message: fmt.Sprintf("deleting volume %q, which no claim wants: %s", handle, a.Message),
	}}
	return do{Finding: failed.Finding, Actions: []Action{Note{intent.Known{Handle: handle}}}, Then: failed}
}

// AfterDiscardSecret says what it means that the secret for DeleteVolume exists and may not be
// read: the volume is not deleted without it, since a driver that cannot log in may answer that
// there is nothing to delete (H-16). The handle stays known.
func AfterDiscardSecret(a DiscardVolume, access Access) Verdict {
	finding := verdict.Finding{
		Reason: verdict.SecretForbidden,
		Message: fmt.Sprintf(
			"secret %q, which is needed to delete volume %q, may not be read by the provisioner",
			a.Secret,
			a.Handle,
		),
		Fix: mayReadSecret(a.Secret.Namespace),
	}
	if access != Forbidden {
		finding = verdict.Finding{Reason: verdict.WriteFailed, Message: fmt.Sprintf("read secret %q", a.Secret)}
	}
	return do{Finding: finding, Actions: []Action{Note{intent.Known{Handle: a.Handle}}}, Then: refuse{Finding: finding}}
}
