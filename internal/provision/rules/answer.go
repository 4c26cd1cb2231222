package provision

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/csispec"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// Answer is the result of a call to the driver.
type Answer struct {
	Volume  *csi.Volume      // of the response; nil when there is none
	Failure *csispec.Failure // nil when the call succeeded
}

// AfterCreate returns what follows from the response of CreateVolume.
func AfterCreate(s Snapshot, sent CreateVolume, a Answer) Verdict {
	if a.Failure != nil {
		return afterFailedCreate(s, sent, *a.Failure)
	}
	if a.Volume.GetVolumeId() == "" { // C-70, H-10
		return refuse{Finding: verdict.Because(
			verdict.CreateResponseInvalid, "CSI driver %q answered CreateVolume without a volume", s.Driver.Name,
		)}
	}
	if why := whyUnwanted(s); why != nil {
		return discardAnswered(s, sent, a.Volume.GetVolumeId(), why)
	}
	// C-71, H-2: the entry stays until the volume is deleted
	if unfit := checkResponse(s, sent.Request, a.Volume); unfit != "" {
		return discardAnswered(s, sent, a.Volume.GetVolumeId(), refuse{Finding: verdict.Because(
			verdict.CreateResponseInvalid, "CSI driver %q: %s; the volume was deleted again", s.Driver.Name, unfit,
		)})
	}
	pv, err := asMigrated(s, NewVolume(s, sent, a.Volume))
	if err != nil {
		return untranslated(s, sent, a.Volume.GetVolumeId(), err)
	}
	return do{
		Finding: verdict.Because(verdict.VolumeCreated, "the driver created volume %s", pv.Name),
		Actions: []Action{WriteVolume{pv}, Resolve{}},
		Then:    provisioned(pv),
	}
}

// whyUnwanted returns the verdict of a claim that has no use for the volume any more; nil if it
// has. Without a class of this driver the PersistentVolume cannot be written; the claim continues
// when one appears.
func whyUnwanted(s Snapshot) Verdict {
	if !wants(s) {
		return idle(verdict.CleanedUp, "the claim does not want the volume any more, it was deleted again")
	}
	return checkClass(s)
}

// wants reports whether the claim exists and still needs a volume from this driver.
func wants(s Snapshot) bool {
	return s.Claim != nil && s.Claim.DeletionTimestamp == nil && s.Claim.Spec.VolumeName == "" &&
		!objects.IsBoundWithoutVolume(s.Claim) && !hasAnother(s) && isForThisNode(s)
}

// discardAnswered deletes the volume of a CreateVolume response. For an entry of a previous leader
// it only records the handle; the volume is deleted when that leader's calls must have ended.
func discardAnswered(s Snapshot, sent CreateVolume, handle string, then Verdict) Verdict {
	if s.Pending == nil || s.Pending.CallsEnd.IsZero() {
		return discard(sent.Request.GetName(), handle, sent.Secrets, then)
	}
	waits := untilCallsEnd(s)
	return do{Finding: waits.Because(), Actions: []Action{Note{intent.Known{Handle: handle}}}, Then: waits}
}

func discard(name, handle string, secrets secretref.Set, then Verdict) Verdict {
	return do{
		Finding: then.Because(),
		Actions: []Action{DiscardVolume{Name: name, Handle: handle, Secret: secrets.Of(secretref.Deletion)}, Resolve{}},
		Then:    then,
	}
}

// IsNeeded returns the verdict that replaces a DiscardVolume when a PersistentVolume has its
// volume; nil when none has it.
//   - now is the live PersistentVolume with the name of the request. An earlier attempt wrote it and
//     it may be in use, so its reclaim policy decides about the volume.
//   - sharing are the PersistentVolumes with the same handle. With one of another claim, the driver
//     answered with a volume that is not ours, as where a class stands for one share (D-37).
func IsNeeded(s Snapshot, a DiscardVolume, now *corev1.PersistentVolume, sharing []*corev1.PersistentVolume) Verdict {
	if now == nil && s.Options.Node.Name != "" { // of another node, with the same handle
		if i := slices.IndexFunc(sharing, func(pv *corev1.PersistentVolume) bool { return pv.Name == a.Name }); i >= 0 {
			now = sharing[i]
		}
	}
	now = asCSI(now)
	if now != nil && now.Spec.CSI != nil && now.Spec.CSI.Driver == s.Driver.Name {
		switch {
		case now.Spec.CSI.VolumeHandle == a.Handle:
			return resolved(verdict.VolumeExists, "PersistentVolume "+now.Name+" exists")
		case belongsTo(now, s.Key) && !willBeReclaimed(now):
			return keepBoth(now, a.Handle)
		}
	}
	for _, other := range sharing {
		if other.Name != a.Name {
			return resolveAndRefuse(verdict.Because(
				verdict.VolumeConflict,
				"CSI driver %q answered with volume %q, which is that of PersistentVolume %q. It is not deleted",
				s.Driver.Name, a.Handle, other.Name,
			))
		}
	}
	return nil
}

// keepBoth resolves the entry and reports a second volume of a claim, which is not deleted.
func keepBoth(have *corev1.PersistentVolume, handle string) Verdict {
	return resolveAndRefuse(secondVolume(have, handle))
}

// discardSecond deletes a second volume of a claim whose first one is released and will be
// reclaimed: both are to be deleted, whatever data they have.
func discardSecond(have *corev1.PersistentVolume, handle string) Verdict {
	why := verdict.Because(
		verdict.VolumeConflict,
		"CSI driver %q answered with volume %q when PersistentVolume %q was released. It is deleted too",
		have.Spec.CSI.Driver, handle, have.Name,
	)
	return do{Finding: why, Actions: []Action{Note{intent.Known{Handle: handle}}}, Then: refuse{Finding: why}}
}

// willBeReclaimed reports whether a PersistentVolume is released and has the policy Delete.
func willBeReclaimed(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeReleased &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

func resolveAndRefuse(why verdict.Finding) Verdict {
	return do{Finding: why, Actions: []Action{Resolve{}}, Then: refuse{Finding: why}}
}

func provisioned(pv *corev1.PersistentVolume) Verdict {
	return idle(verdict.VolumeProvisioned, "Successfully provisioned volume "+pv.Name) // EV-5
}

// checkResponse compares the volume with the request. It returns what does not fit; empty for
// nothing.
func checkResponse(s Snapshot, request *csi.CreateVolumeRequest, created *csi.Volume) string {
	required := request.GetCapacityRange().GetRequiredBytes()
	if got := created.GetCapacityBytes(); got != 0 && got < required {
		return fmt.Sprintf("created volume has %d bytes, less than the %d bytes that the claim asks for", got, required)
	}
	if strings.ContainsFunc(created.GetVolumeId(), unicode.IsControl) { // it is used in commands and logs
		return fmt.Sprintf("created volume has the id %q, with control characters", created.GetVolumeId())
	}
	return cmp.Or(checkContentSource(request, created), checkAttributes(s, request))
}

// Written is the failure of a PersistentVolume create.
type Written struct {
	Existing *corev1.PersistentVolume // the object that has the name already
	Reason   metav1.StatusReason      // of the API server's error; empty when there was no answer
	Message  string                   // the API server's error message
	Refused  bool                     // the API server answered, and would answer a retry alike
}

// IsUnconfirmed reports whether this write or an earlier one may have created the PersistentVolume:
// the API server did not answer, or the name exists. Its volume must not be deleted then (D-37).
func (w Written) IsUnconfirmed() bool {
	return !w.Refused || w.Reason == metav1.StatusReasonAlreadyExists
}

// isRejected reports whether the API server rejects the object itself, so that a retry fails too
// (H-3).
func (w Written) isRejected() bool {
	switch w.Reason {
	case metav1.StatusReasonInvalid, metav1.StatusReasonForbidden, metav1.StatusReasonBadRequest:
		return true
	default:
		return false
	}
}

// AfterWrite returns what follows from a failed create of the PersistentVolume. The journal entry
// stays, so that the volume is not forgotten, unless the volume has its PersistentVolume (H-3).
func AfterWrite(want *corev1.PersistentVolume, w Written) Verdict {
	want, w.Existing = asCSI(want), asCSI(w.Existing)
	switch {
	case w.Existing != nil && describesSame(want, w.Existing): // C-24, compared (H-5)
		done := provisioned(want)
		return do{Finding: done.Because(), Actions: []Action{Resolve{}}, Then: done}
	case w.Existing != nil && isForSameClaim(want, w.Existing) && willBeReclaimed(w.Existing):
		return discardSecond(w.Existing, want.Spec.CSI.VolumeHandle)
	case w.Existing != nil && isForSameClaim(want, w.Existing):
		return keepBoth(w.Existing, want.Spec.CSI.VolumeHandle)
	case w.Existing != nil:
		return refuse{Finding: conflict(w.Existing, "it is for another claim or another volume")}
	case w.isRejected():
		return refuse{Finding: verdict.Because(
			verdict.VolumeRejected,
			"volume is created, but its PersistentVolume %q is refused: %s", want.Name, w.Message,
		)}
	}
	return refuse{Finding: verdict.Because(verdict.WriteFailed, "creating PersistentVolume: %s", w.Message)}
}

func describesSame(want, have *corev1.PersistentVolume) bool {
	return isForSameClaim(want, have) && have.Spec.CSI.VolumeHandle == want.Spec.CSI.VolumeHandle
}

// isForSameClaim reports whether both have the same driver and the same claim.
func isForSameClaim(want, have *corev1.PersistentVolume) bool {
	return have.Spec.CSI != nil && have.Spec.ClaimRef != nil &&
		have.Spec.CSI.Driver == want.Spec.CSI.Driver && have.Spec.ClaimRef.UID == want.Spec.ClaimRef.UID
}

// AfterDiscard returns what follows from a failed DeleteVolume of an unwanted volume. The entry
// stays with the handle, so that this process or a new leader retries the deletion. Final errors of
// CreateVolume do not end that, since CreateVolume is not called for such an entry (H-14).
func AfterDiscard(handle string, f csispec.Failure) Verdict {
	failed := refuse{Finding: verdict.Because(
		verdict.CreateResponseInvalid, "deleting volume %q, which no claim wants: %s", handle, f.Words(),
	)}
	return do{Finding: failed.Finding, Actions: []Action{Note{intent.Known{Handle: handle}}}, Then: failed}
}

// AfterDiscardSecret returns what follows when the secret for DeleteVolume exists and cannot be
// read. DeleteVolume is not called without it: a driver that cannot log in may answer that there is
// no such volume (H-16). The handle stays in the entry.
func AfterDiscardSecret(a DiscardVolume, secret Secret) Verdict {
	finding := verdict.Finding{
		Reason: verdict.SecretForbidden,
		Message: fmt.Sprintf(
			"secret %q, which is needed to delete volume %q, may not be read by the provisioner%s",
			a.Secret,
			a.Handle,
			because(secret.Refusal),
		),
		Fix: mayReadSecret(a.Secret.Namespace),
	}
	if secret.Access != Forbidden {
		finding = verdict.Because(verdict.WriteFailed, "read secret %q", a.Secret)
	}
	return do{Finding: finding, Actions: []Action{Note{intent.Known{Handle: a.Handle}}}, Then: refuse{Finding: finding}}
}
