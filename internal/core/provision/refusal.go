package provision

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/rpcerror"
	"github.com/purser-csi/purser/internal/core/secretref"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// outcome is what a failed CreateVolume says about the volume.
type outcome int

const (
	uncertain outcome = iota // the call may be in progress
	halfDone                 // the call has ended and may have left a volume (H-15)
	final                    // no volume exists
	infeasible
	exhausted
)

func meaning(a Answer) outcome {
	if a.Foreign { // C-44
		return uncertain
	}
	switch {
	case rpcerror.IsUncertain(a.Code): // C-40
		return uncertain
	case a.Code == codes.ResourceExhausted: // C-41
		return exhausted
	case a.Code == codes.InvalidArgument: // C-42
		return infeasible
	case rpcerror.MayLeaveVolume(a.Code): // C-43, H-15
		return halfDone
	default: // C-43
		return final
	}
}

// afterFailedCreate is the table of C-40 to C-45. An uncertain answer keeps the record, and the
// request is repeated as it is. A refusal settles the record when it speaks for all calls that were
// made: for the first one, and none has left something. Else the record stays: as long as the claim
// wants a volume it may ask for another one in place of what was refused, and when it does not, the
// request is repeated to find out, a bounded number of times: each that a call may have met, since
// a driver may look at the parameters of one before it looks at the name, and says nothing then of
// a volume that it has made for another one (H-1).
//
//nolint:gocyclo // the table of the specification, row by row
func afterFailedCreate(s Snapshot, sent CreateVolume, a Answer) Verdict {
	m, finding := meaning(a), verdict.Finding{Reason: verdict.CreateFailed, Message: a.Message}
	if m == uncertain {
		finding.Reason = verdict.CreateUncertain
		if s.Pending != nil { // the first time the event has the driver's words alone (EV-2)
			finding.Fix = startsOver
		}
		return refuse{Finding: finding}
	}
	if e := former(s, sent); e != nil && (a.Code == codes.AlreadyExists || !wants(s)) {
		return create(s, *e, Note{intent.Known{Refusals: s.Pending.Known.Refusals, Unmet: a.Code == codes.AlreadyExists}})
	}
	record, enough := afterRefusal(s, sent, m)
	if enough {
		return settled(verdict.CleanupGivenUp, fmt.Sprintf(
			"CSI driver %q refused %d times in a row to say whether there is a volume %q, which no claim wants, the last time with: %s. "+
				"If the storage system has one of this name, delete it there",
			s.Driver.Name,
			MostRefusals,
			sent.Request.GetName(),
			a.Message,
		))
	}
	switch {
	case m == infeasible && wants(s):
		finding.Reason = verdict.CreateInfeasible
		finding.Message = "Volume provisioning failed with infeasible error. Retries will be delayed. " + a.Message // EV-3
		slow := refuse{Finding: finding, Retry: verdict.RetrySlowly}
		if slow.Look = lookAfter(s); slow.Look == 0 && sent.Secrets.Of(secretref.Provisioner).Name != "" {
			slow.Look = secretLook
		}
		return do{Finding: finding, Actions: []Action{record}, Then: slow}
	case m == infeasible:
		finding.Reason = verdict.CreateInfeasible
	case m == exhausted:
		finding.Reason = verdict.CreateExhausted
		switch {
		case unwanted(s) != nil || selectedNode(s.Claim) == "":
		case mayMove(s): // C-41, C-26
			return reschedule(s, finding, record)
		case s.Options.Node.Name != "":
			finding.Fix = staysHere
		}
	}
	return do{Finding: finding, Actions: []Action{record}, Then: refuse{Finding: finding}}
}

// former is the next request that an earlier call may have met, when the one that was sent is
// another one; nil when there is none. A volume that is in the way of a request, or that no claim
// wants, is that of one of those.
func former(s Snapshot, sent CreateVolume) *intent.Entry {
	owners := mayOwn(s)
	if next := 1 + slices.IndexFunc(owners, func(e *intent.Entry) bool { return e.Asks(sent.Request) }); next < len(
		owners,
	) {
		return owners[next]
	}
	return nil
}

// mayOwn are the requests on record which a call may have met, the last one first.
func mayOwn(s Snapshot) (owners []*intent.Entry) {
	for e := s.Pending; e != nil; e = e.Former {
		if !e.Known.Unmet {
			owners = append(owners, e)
		}
	}
	return owners
}

// startsOver is what a user can do about a request with an uncertain outcome.
const startsOver = "The same request is repeated until the driver gives a final answer; to start over with another one, delete the claim and create it again"

// MostRefusals is how often the requests that no claim wants any more are repeated, one after the
// other, while the driver refuses all of them: with the delays of the flags' defaults for a quarter
// of an hour.
const MostRefusals = 10

// afterRefusal is what becomes of the record. enough is true when it has been kept for long enough.
func afterRefusal(s Snapshot, sent CreateVolume, m outcome) (record Action, enough bool) {
	if s.Pending == nil && m != halfDone {
		return Settle{}, false
	}
	isNew := !slices.ContainsFunc(mayOwn(s), func(e *intent.Entry) bool { return e.Asks(sent.Request) })
	refusals := 1
	if s.Pending != nil && !wants(s) {
		refusals += s.Pending.Known.Refusals
	}
	return Note{intent.Known{Refusals: refusals, Unmet: isNew && m != halfDone}}, refusals >= MostRefusals
}

// isRepeated reports whether the recorded request is repeated as it is. After a final error it is
// not, as long as the claim wants a volume: its class may be another one by now. At most one request
// that may have created a volume is replaced. The next one is repeated until the driver gives the
// volume, or the claim is deleted and starts over under another name.
func isRepeated(s Snapshot) bool {
	return s.Pending != nil && (s.Pending.Known.Refusals == 0 || len(mayOwn(s)) > 1 || !wants(s))
}

// redo ends what was begun. A volume that is known by its handle and that no claim wants is
// deleted, and a claim that wants one begins anew then; else the call is repeated, and its answer
// tells what is next. One that no call has met has no volume: to repeat it could only make one
// (H-1).
func redo(s Snapshot) Verdict {
	e := *s.Pending
	if owners := mayOwn(s); e.Known.Handle == "" && len(owners) > 0 {
		e = *owners[0]
	}
	if e.Known.Handle == "" {
		return create(s, e)
	}
	return discard(s, e.VolumeName, e.Known.Handle, e.Secrets, afterDiscarded(s, e.Known.Handle))
}

// afterDiscarded is what follows when a volume that is known by its handle has been deleted. A
// claim with a PersistentVolume needs no other one: it may be gone, and a watch that is behind
// shows it as it was before it was bound.
func afterDiscarded(s Snapshot, handle string) Verdict {
	if wants(s) && describes(s) {
		return idle(verdict.VolumeExists, "PersistentVolume "+s.Volume.Name+" exists, a second volume was deleted again")
	}
	if why := unwanted(s); why != nil {
		return why
	}
	return refuse{Finding: verdict.Finding{
		Reason: verdict.CreateResponseInvalid, Message: fmt.Sprintf("volume %q, which does not fit the claim, was deleted again", handle),
	}}
}
