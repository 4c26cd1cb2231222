package health

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// Snapshot has the inputs of a decision about one volume.
type Snapshot struct {
	Volume *corev1.PersistentVolume      // nil: it does not exist
	Claim  *corev1.PersistentVolumeClaim // that the volume names; nil: it does not exist
	Driver string
	Known  Known
	// Lists says that the driver lists the volumes with problems. Then only a volume that is not on the
	// list any more is checked by a call of its own (HM-42).
	Lists bool
	List  List
	// Period is how often a volume is checked that is not listed.
	Period time.Duration
	// Refused is when the API server last did not store the field, or did not permit the write; zero for
	// never, or if it stored it since.
	Refused time.Time
}

// List is the last complete list of the driver's volumes with problems.
type List struct {
	At     time.Time // when it was complete; zero for none yet
	Report *Report   // about the volume; nil if it is not on the list
	// Confirm is the time over which the calls about the volumes are spread that left the list.
	Confirm time.Duration
}

// Action is one of [Take], [Check], [Store] and [Tell].
type Action interface{ action() }

// Take takes the list's report about the volume as the driver's answer.
type Take struct{ Report Report }

// Check calls the driver for the health of the volume.
type Check struct{}

// Store writes the conditions into the status of the claim; none to remove the field.
type Store struct {
	Conditions Conditions
	IsSameSet  bool // only messages differ from what is stored, so the time of the last transition stays
}

// Tell emits the event of a finding on the claim, unless the last one about the topic had the same state. A
// message that differs in each answer makes no event each time.
type Tell struct {
	Finding      verdict.Finding
	Topic, State string
}

func (Take) action()  {}
func (Check) action() {}
func (Store) action() {}
func (Tell) action()  {}

type (
	next    = verdict.Verdict[Action]
	wait    = verdict.Wait[Action]
	nothing = verdict.Nothing[Action]
)

// Decide returns what is due for a volume.
func Decide(s Snapshot, now time.Time) next {
	if why := Unchecked(s); why != "" {
		return nothing{Finding: because(verdict.VolumeHealthNotChecked, why)}
	}
	then := later(s, now)
	if s.Lists && s.List.Report != nil && s.List.At.After(s.Known.Checked) {
		return verdict.DoFirst(then.Because(), []Action{Take{*s.List.Report}}, then)
	}
	if at := Due(s, now); !at.IsZero() && !now.Before(at) {
		return verdict.DoFirst(then.Because(), []Action{Check{}}, then)
	}
	return Show(s, now)
}

// Unchecked returns why a volume is not checked; empty if it is. Only bound volumes are (HM-13). A claim
// that was created again under its name is not the volume's (HM-H2).
func Unchecked(s Snapshot) string {
	pv := s.Volume
	switch {
	case pv == nil || pv.DeletionTimestamp != nil:
		return "the volume does not exist any more, or is being deleted"
	case pv.Spec.CSI == nil || pv.Spec.CSI.Driver != s.Driver || pv.Spec.CSI.VolumeHandle == "":
		return "the volume is not one of the driver " + s.Driver
	case pv.Status.Phase != corev1.VolumeBound || pv.Spec.ClaimRef == nil:
		return "the volume is not bound to a claim"
	case s.Claim == nil || s.Claim.UID != pv.Spec.ClaimRef.UID:
		return "the claim of the volume does not exist any more"
	case s.Claim.Spec.VolumeName != pv.Name:
		return "the claim names another volume"
	}
	return ""
}

// Due returns when the next call about a volume is due; zero for no call.
func Due(s Snapshot, now time.Time) time.Time {
	last := s.Known.Tried
	if last.IsZero() {
		last = s.Known.Since
	}
	if !s.Lists {
		if !s.Known.Tried.IsZero() { // its turn may have moved with the period
			last = last.Add(s.Period / 2)
		} else if last.IsZero() {
			last = now
		}
		return slot(s.Volume.UID, last, s.Period)
	}
	abnormal := s.Known.IsAbnormal() || len(Stored(s.Claim)) > 0
	if s.List.At.IsZero() || s.List.Report != nil || !abnormal || s.Known.Tried.After(s.List.At) {
		return time.Time{}
	}
	if len(s.Known.Report.Conditions) == 0 && !s.Known.Checked.IsZero() { // it rests, and is not listed again
		return time.Time{}
	}
	return s.List.At.Add(place(s.Volume.UID, s.List.Confirm))
}

// Stored returns the conditions in the status of a claim.
func Stored(claim *corev1.PersistentVolumeClaim) Conditions {
	if claim == nil || claim.Status.HealthStatus == nil {
		return nil
	}
	return claim.Status.HealthStatus.HealthConditions
}

// retryStore is the pause before the API server is tried again that did not store the field: its gate
// CSIVolumeHealth is off, or the account may not write it (HM-46).
const retryStore = 30 * time.Minute

// rewriteAfter is the pause before the same conditions are written again into a claim that has others: a
// second monitor, or a mutating webhook, changes each write, and would otherwise answer it at once.
const rewriteAfter = time.Minute

// heldUntil returns when the shown conditions may be written again over those of another writer; zero if
// nothing is to be written, or at once. Conditions that this process has not written last are no answer to
// another writer, and are written at once.
func heldUntil(s Snapshot, now time.Time) time.Time {
	until := s.Known.WroteAt.Add(rewriteAfter)
	if s.Known.WroteAt.IsZero() || !now.Before(until) ||
		!isSame(s.Known.Wrote, s.Known.Shown) || isSame(Stored(s.Claim), s.Known.Shown) {
		return time.Time{}
	}
	return until
}

// Show returns the writes and events that bring users what is known.
func Show(s Snapshot, now time.Time) next {
	s.Known = s.Known.Rested(now)
	if s.Known.Checked.IsZero() {
		return later(s, now)
	}
	var actions []Action
	stored, shown := Stored(s.Claim), s.Known.Shown
	mayStore := s.Refused.IsZero() || now.Sub(s.Refused) >= retryStore
	if mayStore && heldUntil(s, now).IsZero() && !isSame(stored, shown) {
		actions = append(actions, Store{shown, isSameSet(stored, shown)})
	}
	actions = append(actions, tells(s, now)...)
	then := later(s, now)
	return verdict.DoFirst(then.Because(), actions, then)
}

// tells returns the events about what is shown.
func tells(s Snapshot, now time.Time) (all []Action) {
	const healthTopic = "health"
	shown := s.Known.Shown
	for _, number := range s.Known.Report.Unknown {
		all = append(all, Tell{Topic: fmt.Sprintf("status %d", number), Finding: because(
			verdict.VolumeHealthStatusUnknown,
			fmt.Sprintf("The CSI driver reports the health status %d, which this version does not know", number),
		)})
	}
	switch {
	case len(shown) > 0 && s.Known.Flaps(now):
		all = append(all, Tell{abnormal(s.Known, now), healthTopic, "flaps, " + string(Worst(shown))})
	case len(shown) > 0:
		all = append(all, Tell{abnormal(s.Known, now), healthTopic, identity(shown)})
	case len(s.Known.Report.Unknown) == 0 && (s.Known.Told || len(Stored(s.Claim)) > 0):
		all = append(all, Tell{because(
			verdict.VolumeHealthRecovered, "The Volume returns to the healthy state", // upstream's words (HM-14)
		), healthTopic, "healthy"})
	}
	return all
}

// abnormal is what an event says of a volume with problems. The text about a flapping volume is the same
// whichever of its states is the present one, so that it is not emitted at each change.
func abnormal(k Known, now time.Time) verdict.Finding {
	if k.Flaps(now) {
		return because(verdict.VolumeHealthFlapping, fmt.Sprintf(
			"The health of the volume changed at least %d times within an hour. Its problems are shown until it has "+
				"been healthy for 15 minutes. Its worst status: %s", flapChanges, Worst(k.Shown),
		))
	}
	return because(verdict.VolumeHealthAbnormal, Text(k.Shown))
}

// later is the verdict once all is shown: when the volume is looked at again.
func later(s Snapshot, now time.Time) next {
	finding, isAbnormal := because(verdict.VolumeHealthy, "the driver knows no problem of the volume"), false
	switch {
	case s.Known.Checked.IsZero() && (!s.Lists || s.List.At.IsZero() || len(Stored(s.Claim)) > 0):
		finding = because(
			verdict.VolumeHealthCheckAwaited, "the driver has not said yet whether it knows a problem of the volume",
		)
	case len(s.Known.Shown) > 0:
		finding, isAbnormal = abnormal(s.Known, now), true
	}
	until := Due(s, now)
	if s.Known.Rests(now) {
		until = earlier(until, s.Known.restEnds())
	}
	until = earlier(until, heldUntil(s, now))
	if until.IsZero() && !isAbnormal {
		return nothing{Finding: finding}
	}
	return wait{Finding: finding, Until: until} // the next list enqueues an abnormal volume
}

// earlier returns the earlier of two times, of which a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// AfterFailure is the verdict once a check has failed. That is no verdict about the volume: what is shown
// stays (HM-15). The next attempt is the volume's next turn: when a driver is down, each volume fails.
func AfterFailure(s Snapshot, message, code string, now time.Time) next {
	s.Known.Tried = now
	finding := because(verdict.VolumeHealthCheckFailed, "the health of the volume is not known: "+message)
	finding.Code = code
	if until := earlier(Due(s, now), heldUntil(s, now)); !until.IsZero() {
		return wait{Finding: finding, Until: until}
	}
	return nothing{Finding: finding} // the next list enqueues it
}

func because(reason verdict.Reason, message string) verdict.Finding {
	return verdict.Finding{Reason: reason, Message: message}
}
