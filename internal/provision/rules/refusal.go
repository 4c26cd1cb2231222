package provision

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/csispec"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// afterFailedCreate implements C-40 to C-45.
//   - An uncertain error keeps the journal entry, and the request is repeated unchanged.
//   - A final error of the first call resolves the entry: no volume exists.
//   - A final error after an uncertain one keeps the entry. If the claim still wants a volume, the
//     request may be replaced by one from the current class. If not, the request is repeated a
//     bounded number of times to learn whether a volume exists. Each request that may have created a
//     volume is repeated: a driver may reject the parameters of one before it looks for a volume of
//     that name (H-1).
//
//nolint:gocyclo // the table of the specification, row by row
func afterFailedCreate(s Snapshot, sent CreateVolume, f csispec.Failure) Verdict {
	m, finding := meaning(f), verdict.Because(verdict.CreateFailed, "%s", f.Words())
	if m == uncertain {
		finding.Reason = verdict.CreateUncertain
		if s.Pending != nil { // the first event has the driver's message alone (EV-2)
			finding.Fix = startOverHint
		}
		return refuse{Finding: finding}
	}
	if e := olderRequest(s, sent); e != nil && (f.Code == codes.AlreadyExists || !wants(s)) {
		return create(s, *e, Note{intent.Known{
			FinalErrors: s.Pending.Known.FinalErrors, NoVolume: f.Code == codes.AlreadyExists,
		}})
	}
	record, enough := afterRefusal(s, sent, m)
	if enough {
		return resolved(verdict.CleanupGivenUp, fmt.Sprintf(
			"CSI driver %q refused %d times in a row to say whether there is a volume %q, which no claim wants, the "+
				"last time with: %s. If the storage system has one of this name, delete it there",
			s.Driver.Name,
			MaxFinalErrors,
			sent.Request.GetName(),
			f.Words(),
		))
	}
	if f.Code == codes.OutOfRange && wants(s) {
		finding.Fix = "Delete the claim and create it with a size that the driver can make: the size of a claim " +
			"without a volume cannot change"
	}
	switch {
	case m == infeasible && wants(s):
		finding.Reason = verdict.CreateInfeasible
		// EV-3
		finding.Message = "Volume provisioning failed with infeasible error. Retries will be delayed. " + f.Words()
		slow := refuse{Finding: finding, Retry: verdict.RetrySlowly}
		if slow.Look = recheckInterval(s); slow.Look == 0 && sent.Secrets.Of(secretref.Provisioner).Name != "" {
			slow.Look = secretRecheck
		}
		return do{Finding: finding, Actions: []Action{record}, Then: slow}
	case m == infeasible:
		finding.Reason = verdict.CreateInfeasible
	case m == exhausted:
		finding.Reason = verdict.CreateExhausted
		switch {
		case whyUnwanted(s) != nil || selectedNode(s.Claim) == "":
		case mayMove(s): // C-41, C-26
			return reschedule(s, finding, record)
		case s.Options.Node.Name != "":
			finding.Fix = staysOnNodeHint
		}
	}
	return do{Finding: finding, Actions: []Action{record}, Then: refuse{Finding: finding}}
}

// olderRequest returns the next older request that may have created a volume; nil for none. A
// volume that conflicts with the sent request, or that no claim wants, was created by one of these.
func olderRequest(s Snapshot, sent CreateVolume) *intent.Entry {
	owners := mayHaveCreated(s)
	if next := 1 + slices.IndexFunc(owners, func(e *intent.Entry) bool { return e.IsFor(sent.Request) }); next < len(
		owners,
	) {
		return owners[next]
	}
	return nil
}

// mayHaveCreated returns the unresolved requests that may have created a volume, the newest first.
func mayHaveCreated(s Snapshot) (owners []*intent.Entry) {
	for e := s.Pending; e != nil; e = e.Replaced {
		if !e.Known.NoVolume {
			owners = append(owners, e)
		}
	}
	return owners
}

// startOverHint is the advice for a request with an uncertain outcome.
const startOverHint = "The same request is repeated until the driver gives a final answer; to start over with " +
	"another one, delete the claim and create it again"

// MaxFinalErrors is how many final errors in a row end the repetition of requests that no claim
// wants any more. With the flags' default delays that takes a quarter of an hour.
const MaxFinalErrors = 10

// afterRefusal returns the action for the journal entry after a final error. enough is true after
// [MaxFinalErrors] of them.
func afterRefusal(s Snapshot, sent CreateVolume, m outcome) (record Action, enough bool) {
	if s.Pending == nil && m != halfDone {
		return Resolve{}, false
	}
	isNew := !slices.ContainsFunc(mayHaveCreated(s), func(e *intent.Entry) bool { return e.IsFor(sent.Request) })
	refusals := 1
	if s.Pending != nil && !wants(s) {
		refusals += s.Pending.Known.FinalErrors
	}
	return Note{intent.Known{FinalErrors: refusals, NoVolume: isNew && m != halfDone}}, refusals >= MaxFinalErrors
}

// isRepeated reports whether the recorded request is repeated unchanged. After a final error a
// claim that wants a volume gets a new request, since its class may have changed. At most one
// request that may have created a volume is replaced. The next one is repeated until the driver
// returns the volume, or until the claim is deleted and created again.
func isRepeated(s Snapshot) bool {
	return s.Pending != nil && (s.Pending.Known.FinalErrors == 0 || len(mayHaveCreated(s)) > 1 || !wants(s))
}

// repeatOrDiscard continues an unresolved entry. A volume with a known handle is deleted; a claim
// that still wants one gets a new request afterwards. Otherwise CreateVolume is repeated. A request
// of which every call got a final error is not repeated, since that could only create a volume
// (H-1). The entry has the request that was sent last, so its secrets are those of the request whose
// response had the handle.
func repeatOrDiscard(s Snapshot) Verdict {
	e := *s.Pending
	if owners := mayHaveCreated(s); e.Known.Handle == "" && len(owners) > 0 {
		e = *owners[0]
	}
	if e.Known.Handle == "" {
		return create(s, e)
	}
	return discard(e.VolumeName, e.Known.Handle, e.Secrets, afterDiscarded(s, e.Known.Handle))
}

// afterDiscarded returns what follows when the volume of a known handle has been deleted. A claim
// with a PersistentVolume gets no other volume: it may be deleted, and the cache may be stale and
// still show it unbound.
func afterDiscarded(s Snapshot, handle string) Verdict {
	if wants(s) && describes(s) {
		return idle(
			verdict.VolumeExists, "PersistentVolume "+s.Volume.Name+" exists, a second volume was deleted again",
		)
	}
	if why := whyUnwanted(s); why != nil {
		return why
	}
	return refuse{Finding: verdict.Because(
		verdict.CreateResponseInvalid, "volume %q, which does not fit the claim, was deleted again", handle,
	)}
}
