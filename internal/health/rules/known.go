package health

import (
	"slices"
	"time"
)

// Known is what a process knows of the health of one volume. The zero value is that of a volume of which it
// has no answer.
type Known struct {
	Since   time.Time // when the process began to watch the volume
	Checked time.Time // the time of the last answer; zero for none
	Tried   time.Time // the time of the last call, which may have failed
	Report  Report    // the last answer
	// Shown are the conditions that users see. They differ from those of Report only while a flapping
	// volume rests.
	Shown   Conditions
	Healthy time.Time // since when all answers are without a condition; zero if the last one has some
	// Changes are the times of the last changes of the reported set, oldest first.
	Changes []time.Time
	Told    bool // the last event said that the volume is abnormal
	// Wrote are the conditions of the last successful write into the claim, at WroteAt; see [rewriteAfter].
	Wrote   Conditions
	WroteAt time.Time // zero for none
}

// A volume flaps when the set of its conditions has changed this often within this time.
const (
	flapChanges = 4
	flapWindow  = time.Hour
)

// flapRest is how long a flapping volume must be healthy until its claim is shown as healthy.
const flapRest = 15 * time.Minute

// After returns what is known once the driver has answered. A problem is shown at once. The end of one is
// shown at once too, but for a flapping volume: then users see the last problem until the volume has been
// healthy for flapRest.
func (k Known) After(r Report, at time.Time) Known {
	if !k.Checked.IsZero() && !isSameSet(k.Report.Conditions, r.Conditions) {
		k.Changes = append(slices.Clone(k.Changes), at)
		k.Changes = k.Changes[max(0, len(k.Changes)-flapChanges):]
	}
	switch {
	case len(r.Conditions) > 0:
		k.Healthy = time.Time{}
	case k.Healthy.IsZero():
		k.Healthy = at
	}
	k.Checked, k.Tried, k.Report = at, at, r
	return k.Rested(at)
}

// Rested returns what is known, with the conditions that are shown at a time.
func (k Known) Rested(now time.Time) Known {
	if len(k.Report.Conditions) > 0 || !k.Rests(now) {
		k.Shown = k.Report.Conditions
	}
	return k
}

// Flaps reports whether the set of conditions changes too often to be told each time.
func (k Known) Flaps(now time.Time) bool {
	return len(k.Changes) == flapChanges && now.Sub(k.Changes[0]) < flapWindow
}

// Rests reports whether a volume is healthy by its last answer and still shown as it was before, since it
// flaps.
func (k Known) Rests(now time.Time) bool {
	return !k.Healthy.IsZero() && len(k.Shown) > 0 && k.Flaps(now) && now.Sub(k.Healthy) < flapRest
}

// restEnds returns when a resting volume is shown as healthy.
func (k Known) restEnds() time.Time {
	rest, calm := k.Healthy.Add(flapRest), k.Changes[0].Add(flapWindow)
	if calm.Before(rest) {
		return calm
	}
	return rest
}

// IsAbnormal reports whether the last answer has a condition, or users are shown one.
func (k Known) IsAbnormal() bool { return len(k.Report.Conditions)+len(k.Shown) > 0 }
