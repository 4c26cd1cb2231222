package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/verdict"
)

var start = time.Unix(1_000_000, 0)

const minute = time.Minute

var bad = Conditions{{Status: corev1.VolumeHealthInaccessible, Reason: "Gone", Message: "no disk"}}

func at(m int) time.Time { return start.Add(time.Duration(m) * minute) }

// snapshot returns a bound volume of a driver that lists; stored are the conditions of its claim.
func snapshot(stored Conditions) Snapshot {
	s := Snapshot{
		Driver: "csi.example", Lists: true, Period: minute,
		Volume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "pv-uid"}},
		Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "claim", UID: "uid",
		}},
		Known: Known{Since: start},
	}
	s.Volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example", VolumeHandle: "h"}
	s.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "claim", UID: "uid"}
	s.Volume.Status.Phase = corev1.VolumeBound
	s.Claim.Spec.VolumeName = "pv"
	if len(stored) > 0 {
		s.Claim.Status.HealthStatus = &corev1.VolumeHealthStatus{HealthConditions: stored}
	}
	return s
}

// words are a verdict as a text: its actions, the reason, and when it is looked at again.
func words(v next, now time.Time) string {
	var parts []string
	if todo, is := v.(verdict.Do[Action]); is {
		for _, a := range todo.Actions {
			switch a := a.(type) {
			case Take:
				parts = append(parts, "take")
			case Check:
				parts = append(parts, "check")
			case Store:
				parts = append(parts, "store "+strings.Trim(identity(a.Conditions)+",", ","))
			case Tell:
				parts = append(parts, "tell "+string(a.Finding.Reason))
			}
		}
		v = todo.Then
	}
	parts = append(parts, string(v.Because().Reason))
	if w, is := v.(verdict.Wait[Action]); is {
		if w.Until.IsZero() {
			parts = append(parts, "wait")
		} else {
			parts = append(parts, fmt.Sprintf("wait %s", w.Until.Sub(now).Round(time.Second)))
		}
	}
	return strings.Join(parts, "; ")
}

// known returns what is known after answers, one a minute from the start on; true for a problem.
func known(answers ...bool) Known {
	k := Known{Since: start}
	for i, isBad := range answers {
		var r Report
		if isBad {
			r.Conditions = bad
		}
		k = k.After(r, at(i))
	}
	return k
}

// HM-13, HM-H2: which volumes are checked.
func TestUnchecked(t *testing.T) {
	for name, change := range map[string]func(*Snapshot){
		"no volume":                      func(s *Snapshot) { s.Volume = nil },
		"a volume that is being deleted": func(s *Snapshot) { s.Volume.DeletionTimestamp = &metav1.Time{} },
		"not CSI":                        func(s *Snapshot) { s.Volume.Spec.CSI = nil },
		"another driver":                 func(s *Snapshot) { s.Volume.Spec.CSI.Driver = "other" },
		"no handle":                      func(s *Snapshot) { s.Volume.Spec.CSI.VolumeHandle = "" },
		"released":                       func(s *Snapshot) { s.Volume.Status.Phase = corev1.VolumeReleased },
		"no claim":                       func(s *Snapshot) { s.Claim = nil },
		"a claim created again":          func(s *Snapshot) { s.Claim.UID = "other" },
		"a claim with another volume":    func(s *Snapshot) { s.Claim.Spec.VolumeName = "other" },
	} {
		t.Run("HM-13: "+name, func(t *testing.T) {
			s := snapshot(bad)
			s.List, s.Known = List{At: at(5)}, known(true)
			change(&s)
			if got := words(Decide(s, at(5)), at(5)); got != "VolumeHealthNotChecked" {
				t.Error(got)
			}
		})
	}
}

// What is done for a volume in each state, of a driver that lists and of one that does not.
func TestDecide(t *testing.T) {
	report := &Report{Conditions: bad}
	message := Conditions{{Status: corev1.VolumeHealthInaccessible, Reason: "Gone", Message: "old words"}}
	listed := func(k Known, r *Report) func(*Snapshot) {
		return func(s *Snapshot) { s.Known, s.List = k, List{At: at(5), Report: r} }
	}
	alone := func(k Known) func(*Snapshot) {
		return func(s *Snapshot) { s.Lists, s.Known, s.Period = false, k, 10*minute }
	}
	turn := slot("pv-uid", start, 10*minute) // of the volume
	for _, tc := range []struct {
		name   string
		stored Conditions
		change func(*Snapshot)
		now    time.Time
		want   string
	}{
		{"HM-42: before the first list", nil, func(*Snapshot) {}, at(5), "VolumeHealthCheckAwaited"},
		{"HM-42: before the first list, with stored conditions", bad, func(*Snapshot) {}, at(5), "VolumeHealthCheckAwaited"},
		{"HM-42: listed", nil, listed(Known{Since: start}, report), at(5), "take; VolumeHealthy"},
		{
			"HM-42: listed, and taken", nil, listed(known(false, false, false, false, false, true), report), at(5),
			"store Inaccessible/Gone; tell VolumeHealthAbnormal; VolumeHealthAbnormal; wait",
		},
		{
			"HM-44: listed, taken and stored", bad, listed(known(false, false, false, false, false, true), report),
			at(5), "tell VolumeHealthAbnormal; VolumeHealthAbnormal; wait",
		},
		{
			"HM-44: other words are stored", message, listed(known(false, false, false, false, false, true), report),
			at(5), "store Inaccessible/Gone; tell VolumeHealthAbnormal; VolumeHealthAbnormal; wait",
		},
		{"HM-42: not listed, and healthy", nil, listed(Known{Since: start}, nil), at(5), "VolumeHealthy"},
		{"HM-42: not listed any more", bad, listed(known(true), nil), at(5), "check; VolumeHealthAbnormal; wait 0s"},
		{"HM-42: not listed, and stored by another process", bad, listed(Known{Since: start}, nil), at(5), "check; VolumeHealthCheckAwaited; wait 0s"},
		{"HM-42: not listed, and the check failed", bad, listed(Known{Since: start, Tried: at(6)}, nil), at(6), "VolumeHealthCheckAwaited"},
		{"HM-14: not listed, and healthy by the check", bad, listed(known(true, false), nil), at(5), "store ; tell VolumeHealthRecovered; VolumeHealthy"},
		{
			"HM-43: the first check has its turn", nil, alone(Known{Since: start}), start,
			fmt.Sprintf("VolumeHealthCheckAwaited; wait %s", turn.Sub(start).Round(time.Second)),
		},
		{"HM-43: at its turn", nil, alone(Known{Since: start}), turn, "check; VolumeHealthCheckAwaited; wait 0s"},
		{"HM-43: the next turn is a period later", nil, alone(Known{Since: start}.After(Report{}, turn)), turn, "VolumeHealthy; wait 10m0s"},
		{
			"HM-46: the gate is off", nil,
			func(s *Snapshot) { listed(known(true), report)(s); s.Known.Checked, s.Refused = at(5), at(4) }, at(5),
			"tell VolumeHealthAbnormal; VolumeHealthAbnormal; wait",
		},
		{
			"HM-46: the gate is tried again", nil,
			func(s *Snapshot) { listed(known(true), report)(s); s.Known.Checked, s.Refused = at(5), at(4) }, at(34),
			"store Inaccessible/Gone; tell VolumeHealthAbnormal; VolumeHealthAbnormal; wait",
		},
		{
			"HM-46: the end of a problem that was only told", nil,
			func(s *Snapshot) { listed(known(true, false), nil)(s); s.Known.Told, s.Refused = true, at(4) }, at(5),
			"tell VolumeHealthRecovered; VolumeHealthy",
		},
		{"HM-47: an unknown status", nil, func(s *Snapshot) {
			listed(Known{}.After(Report{Unknown: []int32{9}}, at(5)), &Report{Unknown: []int32{9}})(s)
		}, at(5), "tell VolumeHealthStatusUnknown; VolumeHealthy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := snapshot(tc.stored)
			tc.change(&s)
			if got := words(Decide(s, tc.now), tc.now); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// A claim that another writer changes is written again after a minute, and with another verdict at once.
func TestSecondWriter(t *testing.T) {
	other := Conditions{{Status: corev1.VolumeHealthDegraded, Reason: "Other"}}
	const told = "tell VolumeHealthAbnormal; VolumeHealthAbnormal; "
	wrote := func(all Conditions) func(*Known) {
		return func(k *Known) { k.Wrote, k.WroteAt = all, at(5) }
	}
	for _, tc := range []struct {
		name   string
		stored Conditions
		change func(*Known)
		after  time.Duration
		want   string
	}{
		{"nothing written yet", other, func(*Known) {}, 0, "store Inaccessible/Gone; " + told + "wait"},
		{"at once", other, wrote(bad), 0, told + "wait 1m0s"},
		{"just before a minute", other, wrote(bad), 59 * time.Second, told + "wait 1s"},
		{"after a minute", other, wrote(bad), minute, "store Inaccessible/Gone; " + told + "wait"},
		{"removed by another writer", nil, wrote(bad), 0, told + "wait 1m0s"},
		{"another verdict than the one written", other, wrote(other), 0, "store Inaccessible/Gone; " + told + "wait"},
		{"another verdict after a removal", nil, wrote(nil), 0, "store Inaccessible/Gone; " + told + "wait"},
		{"stored as written", bad, wrote(bad), 0, told + "wait"},
	} {
		t.Run("HM-44: "+tc.name, func(t *testing.T) {
			s, now := snapshot(tc.stored), at(5).Add(tc.after)
			s.Known = known(false, false, false, false, false, true)
			s.List = List{At: at(5), Report: &Report{Conditions: bad}}
			tc.change(&s.Known)
			if got := words(Decide(s, now), now); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	s := snapshot(other)
	s.Known = known(true, false)
	s.List, s.Known.WroteAt = List{At: at(2)}, at(5)
	if got := words(Decide(s, at(5)), at(5)); got != "tell VolumeHealthRecovered; VolumeHealthy; wait 1m0s" {
		t.Errorf("after a removal: %s", got)
	}
}

// HM-15: a failed call is no verdict. The next attempt is at the volume's next turn.
func TestAfterFailure(t *testing.T) {
	s := snapshot(bad)
	s.Lists, s.Known, s.Period = false, known(true), 10*minute
	now := slot("pv-uid", at(20), s.Period)
	got := AfterFailure(s, "no", "Unavailable", now)
	if words(got, now) != "VolumeHealthCheckFailed; wait 10m0s" || got.Because().Code != "Unavailable" {
		t.Error(words(got, now))
	}
	s = snapshot(bad)
	s.List = List{At: at(5)}
	if got := words(AfterFailure(s, "no", "Unavailable", at(6)), at(6)); got != "VolumeHealthCheckFailed" {
		t.Error(got)
	}
}

// Four changes within an hour make a volume flap: then its problem is shown until it was healthy for a
// quarter of an hour. One that fails and recovers once is shown as healthy at once.
func TestFlapping(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []bool // one a minute
		after   int    // minutes from the start
		shown   bool
		flaps   bool
	}{
		"one problem":                     {[]bool{false, true}, 1, true, false},
		"a problem that has ended":        {[]bool{false, true, false}, 2, false, false},
		"a first answer is no change":     {[]bool{true, false, true, false}, 3, false, false},
		"the fourth change":               {[]bool{false, true, false, true, false}, 4, true, true},
		"and back":                        {[]bool{false, true, false, true, false, true}, 5, true, true},
		"healthy for less than a quarter": {[]bool{false, true, false, true, false}, 18, true, true},
		"healthy for a quarter":           {[]bool{false, true, false, true, false}, 19, false, true},
		"healthy for an hour":             {[]bool{false, true, false, true, false}, 62, false, false},
		"bad for an hour, then healthy": {
			append([]bool{false, true, false, true}, append(slices.Repeat([]bool{true}, 60), false)...), 64, false,
			false,
		},
		"healthy answers in between do not rest": {[]bool{false, true, false, true, false, false, false}, 18, true, true},
	} {
		t.Run("HM-H2: "+name, func(t *testing.T) {
			k := known(tc.answers...).Rested(at(tc.after))
			if (len(k.Shown) > 0) != tc.shown || k.Flaps(at(tc.after)) != tc.flaps {
				t.Errorf("shown %v, flaps %t, want %t and %t", k.Shown, k.Flaps(at(tc.after)), tc.shown, tc.flaps)
			}
		})
	}
}

// While a volume flaps, its event is the same in each state, and no event says that it is healthy.
func TestFlappingIsToldOnce(t *testing.T) {
	s := snapshot(bad)
	s.Known, s.List = known(false, true, false, true, false), List{At: at(4)}
	s.Known.Told = true
	want := "tell VolumeHealthFlapping; VolumeHealthFlapping; wait 15m0s"
	if got := words(Decide(s, at(4)), at(4)); got != want {
		t.Errorf("healthy: %s, want %s", got, want)
	}
	flapping, _ := Decide(s, at(4)).(verdict.Do[Action])
	s.Known = s.Known.After(Report{Conditions: bad}, at(5))
	again, _ := Decide(s, at(5)).(verdict.Do[Action])
	if len(again.Actions) != 1 || len(flapping.Actions) != 1 ||
		again.Actions[0].(Tell).State != flapping.Actions[0].(Tell).State {
		t.Errorf("with a problem: %s", words(again, at(5)))
	}
	s.Known = s.Known.After(Report{}, at(6))
	if got := words(Decide(s, at(21)), at(21)); got != "store ; tell VolumeHealthRecovered; VolumeHealthy" {
		t.Errorf("at the end: %s", got)
	}
}

// A message that differs in each answer is stored, and makes no event each time.
func TestEventIsAboutTheSet(t *testing.T) {
	states := map[string]bool{}
	for _, words := range []string{"1 error", "2 errors"} {
		s := snapshot(nil)
		s.Known = Known{}.After(
			Report{Conditions: Conditions{{Status: corev1.VolumeHealthDegraded, Reason: "Errors", Message: words}}},
			start,
		)
		for _, a := range tells(s, start) {
			states[a.(Tell).State] = true
		}
	}
	if len(states) != 1 {
		t.Errorf("states of the event: %v", states)
	}
}

// HM-43, HM-H1, HM-H2: the turns of many volumes are spread over the period, which is longer for more of
// them than can be checked in it.
func TestSchedule(t *testing.T) {
	const volumes = 5000
	period := Period(volumes, minute)
	if period != volumes*time.Second/CallsPerSecond || Period(10, minute) != minute || Period(0, minute) != minute {
		t.Errorf("the period of %d volumes is %s", volumes, period)
	}
	perSecond := map[int64]int{}
	for i := range volumes {
		uid := types.UID(fmt.Sprintf("%08d-volume", i))
		first := slot(uid, start, period)
		if first.Before(start) || first.Sub(start) >= period {
			t.Fatalf("the first turn is after %s", first.Sub(start))
		}
		if next := slot(uid, first.Add(period/2), period); next.Sub(first) != period {
			t.Fatalf("the second turn is after %s", next.Sub(first))
		}
		perSecond[first.Unix()]++
	}
	for second, calls := range perSecond {
		if calls > 4*CallsPerSecond {
			t.Errorf("%d calls in second %d", calls, second)
		}
	}
	if got := slot("u", start, 0); got != start {
		t.Errorf("without a period: %s", got)
	}
}
