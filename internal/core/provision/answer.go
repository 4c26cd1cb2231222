package provision

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/secretref"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// Answer is how a call to the driver ended.
type Answer struct {
	Volume  *csi.Volume // of the response; nil when there is none
	Code    codes.Code  // OK when the call succeeded
	Message string      // the driver's words otherwise, without secret values
	// Foreign says that the error did not come from gRPC, so that nothing is known of the call (C-44).
	Foreign bool
}

// AfterCreate says what the answer to CreateVolume means for the claim.
func AfterCreate(s Snapshot, sent CreateVolume, a Answer) Verdict {
	if a.Code != codes.OK || a.Foreign {
		return afterFailedCreate(s, sent, a)
	}
	if a.Volume.GetVolumeId() == "" { // C-70, H-10
		return refuse{Finding: verdict.Finding{
			Reason:  verdict.CreateAnswerUnfit,
			Message: fmt.Sprintf("CSI driver %q answered CreateVolume without a volume", s.Driver.Name),
		}}
	}
	if why := unwanted(s); why != nil {
		return discard(sent, a.Volume, why)
	}
	if unfit := misfit(sent.Request, a.Volume); unfit != "" { // C-71, H-2: the record stays until the volume is really gone
		return discard(sent, a.Volume, refuse{Finding: verdict.Finding{
			Reason:  verdict.CreateAnswerUnfit,
			Message: fmt.Sprintf("CSI driver %q: %s; the volume was deleted again", s.Driver.Name, unfit),
		}})
	}
	pv := NewVolume(s, sent, a.Volume)
	return do{
		Finding: verdict.Finding{Reason: verdict.VolumeCreated, Message: "the driver created volume " + pv.Name},
		Actions: []Action{WriteVolume{pv}, Settle{}},
		Then:    provisioned(pv),
	}
}

// unwanted says why there is no use for the volume any more, and nil when there is. A class of ours is needed to describe it: the
// claim goes on by itself when one appears.
func unwanted(s Snapshot) Verdict {
	if s.Claim == nil || s.Claim.DeletionTimestamp != nil || s.Claim.Spec.VolumeName != "" {
		return idle(verdict.CleanedUp, "the claim does not want the volume any more, it was deleted again")
	}
	return checkClass(s)
}

func discard(sent CreateVolume, created *csi.Volume, then Verdict) Verdict {
	return do{
		Finding: then.Because(),
		Actions: []Action{DiscardVolume{
			Name: sent.Request.GetName(), Handle: created.GetVolumeId(), Secret: sent.Secrets.Of(secretref.Deletion),
		}, Settle{}},
		Then: then,
	}
}

// HasVolume says what follows when there is a PersistentVolume for what was to be discarded: an earlier attempt wrote it, it is in use as
// like as not, and whether it goes is for the reclaim policy. It answers nil when the volume is nobody's.
func HasVolume(s Snapshot, a DiscardVolume, now *corev1.PersistentVolume) Verdict {
	if now == nil || now.Spec.CSI == nil || now.Spec.CSI.Driver != s.Driver.Name || now.Spec.CSI.VolumeHandle != a.Handle {
		return nil
	}
	return settled(verdict.VolumeExists, "PersistentVolume "+now.Name+" exists")
}

func provisioned(pv *corev1.PersistentVolume) Verdict {
	return idle(verdict.VolumeProvisioned, "Successfully provisioned volume "+pv.Name) // EV-5
}

// misfit compares the volume with the request; empty means that it fits.
func misfit(request *csi.CreateVolumeRequest, created *csi.Volume) string {
	required := request.GetCapacityRange().GetRequiredBytes()
	if got := created.GetCapacityBytes(); got != 0 && got < required {
		return fmt.Sprintf("created volume has %d bytes, less than the %d bytes that the claim asks for", got, required)
	}
	return ""
}

// afterFailedCreate is the table of C-40 to C-45. A final answer settles the record, an uncertain one keeps it.
func afterFailedCreate(s Snapshot, sent CreateVolume, a Answer) Verdict {
	finding := verdict.Finding{Reason: verdict.CreateFailed, Message: a.Message}
	switch meaning(a) {
	case uncertain:
		finding.Reason = verdict.CreateUncertain
		return refuse{Finding: finding}
	case infeasible:
		finding.Reason = verdict.CreateInfeasible
		finding.Message = "Volume provisioning failed with infeasible error. Retries will be delayed. " + a.Message // EV-3
		slow := refuse{Finding: finding, Retry: verdict.RetrySlowly}
		if sent.Secrets.Of(secretref.Provisioner).Name != "" {
			slow.Look = secretLook
		}
		return forget(slow)
	case exhausted:
		finding.Reason = verdict.CreateExhausted
		if s.Driver.HasTopology && unwanted(s) == nil && selectedNode(s.Claim) != "" { // C-41, C-26
			return do{
				Finding: finding,
				Actions: []Action{Settle{}, Reschedule{s.Claim}},
				Then:    idle(verdict.Rescheduled, "the node selection was taken back"),
			}
		}
		return forget(refuse{Finding: finding})
	default:
		return forget(refuse{Finding: finding})
	}
}

func forget(then refuse) Verdict {
	return do{Finding: then.Finding, Actions: []Action{Settle{}}, Then: then}
}

// outcome is what a failed CreateVolume says about the volume.
type outcome int

const (
	final outcome = iota // nothing was created
	uncertain
	infeasible
	exhausted
)

func meaning(a Answer) outcome {
	if a.Foreign { // C-44
		return uncertain
	}
	switch a.Code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.Unavailable: // C-40
		return uncertain
	case codes.ResourceExhausted: // C-41
		return exhausted
	case codes.InvalidArgument: // C-42
		return infeasible
	default: // C-43
		return final
	}
}

// Written is how the creation of a PersistentVolume failed.
type Written struct {
	Existing *corev1.PersistentVolume // the object in the way, when the name was taken
	Rejected bool                     // the API server refuses this object, now and probably later
	Message  string                   // the API server's words
}

// AfterWrite says what a failed creation of the PersistentVolume means. The record stays unless the volume is known to have
// its PersistentVolume: the volume exists and must not be forgotten (H-3).
func AfterWrite(want *corev1.PersistentVolume, w Written) Verdict {
	switch {
	case w.Existing != nil && describesSame(want, w.Existing): // C-24, compared (H-5)
		done := provisioned(want)
		return do{Finding: done.Because(), Actions: []Action{Settle{}}, Then: done}
	case w.Existing != nil:
		return refuse{Finding: conflict(w.Existing, "it is for another claim or another volume")}
	case w.Rejected:
		return refuse{Finding: verdict.Finding{
			Reason:  verdict.VolumeRejected,
			Message: fmt.Sprintf("volume is created, but its PersistentVolume %q is refused: %s", want.Name, w.Message),
		}}
	}
	return refuse{Finding: verdict.Finding{Reason: verdict.WriteFailed, Message: "creating PersistentVolume: " + w.Message}}
}

func describesSame(want, have *corev1.PersistentVolume) bool {
	return have.Spec.CSI != nil && have.Spec.ClaimRef != nil &&
		have.Spec.CSI.Driver == want.Spec.CSI.Driver && have.Spec.CSI.VolumeHandle == want.Spec.CSI.VolumeHandle &&
		have.Spec.ClaimRef.UID == want.Spec.ClaimRef.UID
}

// AfterDiscard says what a failed deletion of an unwanted volume means: the record stays, and the whole is repeated, since
// CreateVolume with the same name finds the same volume again (H-14).
func AfterDiscard(handle string, a Answer) Verdict {
	return refuse{Finding: verdict.Finding{
		Reason:  verdict.CreateAnswerUnfit,
		Message: fmt.Sprintf("deleting volume %q that nobody wants: %s", handle, a.Message),
	}}
}
