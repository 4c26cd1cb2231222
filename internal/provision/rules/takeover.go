package provision

import (
	"slices"

	"github.com/purser-csi/purser/internal/verdict"
)

// JournalFull returns what follows when the journal has no room for the entry: no call is made.
func JournalFull(err error) Verdict {
	return refuse{Finding: verdict.Finding{
		Reason: verdict.JournalFull, Message: err.Error(),
		Fix: "Provisioning goes on by itself when others of these requests are resolved",
	}}
}

// mayDelete reports whether a verdict may delete a volume, or repeats CreateVolume for a volume
// that is not wanted any more. For an entry of a previous leader that must wait until its calls
// have ended: a call in flight would create the volume again. A claim that wants its volume does
// not wait, since CreateVolume is idempotent by name (H-1).
func mayDelete(s Snapshot, v Verdict) bool {
	steps, acts := v.(do)
	return acts && slices.ContainsFunc(steps.Actions, func(a Action) bool {
		switch a.(type) {
		case DiscardVolume:
			return true
		case CreateVolume:
			return whyUnwanted(s) != nil
		case CheckRoom, Compete, Note, OwnClaim, ProtectSource, Record, Reschedule, Resolve, WriteVolume:
		}
		return false
	})
}

// isRacing reports whether a verdict acts for a claim while the previous leader may have a
// DeleteVolume in flight for a volume of that claim (see [intent.Entry.Discarding]).
func isRacing(s Snapshot, v Verdict) bool {
	_, acts := v.(do)
	return acts && s.Pending.Discarding
}

// untilCallsEnd waits until the calls of the previous leader must have ended.
func untilCallsEnd(s Snapshot) Verdict {
	return wait{
		Finding: verdict.Because(
			verdict.WaitForPreviousLeaderCalls,
			"the previous leader may have a call in flight that creates or deletes the volume; "+
				"it goes on when that call must have ended",
		),
		Until: s.Pending.CallsEnd,
	}
}
