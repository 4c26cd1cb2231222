package provision

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/csispec"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// refused is in the journal, and the driver has answered it with so many final errors in a row.
func refused(times int) func(*Snapshot) {
	return func(s *Snapshot) {
		pending(s)
		s.Pending.Known.FinalErrors = times
	}
}

func slower(s *Snapshot) { s.Class.Parameters["tier"] = "tape" }

func sentFor(s Snapshot) CreateVolume {
	request, _ := NewRequest(s)
	return CreateVolume{Request: request}
}

// asked returns the tier of the requested volume; empty if the verdict requests none.
func asked(v Verdict) string {
	d, ok := v.(do)
	if !ok {
		return ""
	}
	create, _ := d.Actions[len(d.Actions)-1].(CreateVolume)
	return create.Request.GetParameters()["tier"]
}

// H-15: a final error after an uncertain one keeps the entry. A claim that wants a volume gets a
// new request from its current class; for one that does not, the same request is repeated.
func TestFinalErrorAfterUncertainCall(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want string
	}{
		{"H-15 the class was made again", world(refused(1), slower), "tape"},
		{"H-15 gone", world(slower, noClaim, refused(1)), "ssd"},
		{"H-15 being deleted", world(slower, deleting, refused(1)), "ssd"},
		{"H-15 bound to another volume", world(slower, bound, refused(1)), "ssd"},
		{"H-15 C-45 not refused: as it is", world(pending, slower), "ssd"},
	} {
		if got := asked(settled(tc.s, now)); got != tc.want {
			t.Errorf("%s: asks for %q, want %q", tc.row, got, tc.want)
		}
	}
	if got := shape(settled(world(refused(1), func(s *Snapshot) { s.Class = nil }), now)); got != "refuse ClassMissing" {
		t.Errorf("H-44 without a class: %s", got)
	}
	named := world(refused(1), func(s *Snapshot) { s.Options.NamePrefix = "other"; s.Options.ExtraCreateMetadata = true })
	create := settled(named, now).(do).Actions[1].(CreateVolume)
	if create.Request.GetName() != pvName || create.Request.GetParameters()[names.ParameterPVName] != pvName {
		t.Errorf("H-5: the name was made anew: %s", create.Request)
	}
	waits := world(refused(1), func(s *Snapshot) { s.Retry = RetryState{NotBefore: now.Add(time.Minute), Inputs: Inputs(*s)} })
	if got := settled(waits, now).Because().Reason; got != verdict.WaitForRetry {
		t.Errorf("H-43: %s, want to wait for the next attempt", got)
	}
	slower(&waits)
	if got := asked(settled(waits, now)); got != "tape" {
		t.Errorf("H-43: a class that was made again does not cut the wait, %q is asked for", got)
	}
}

// H-15: the request for an unwanted volume is repeated a bounded number of times, and an event says
// how it ended.
func TestFinalErrorsAreBounded(t *testing.T) {
	s, no := world(noClaim, pending), Answer{Failure: &csispec.Failure{Code: codes.InvalidArgument, Message: "no such pool"}}
	for n := 1; n < MaxFinalErrors; n++ {
		v, ok := AfterCreate(s, sentFor(world()), no).(do)
		if !ok || v.Actions[0] != (Note{intent.Known{FinalErrors: n}}) || v.Then.(refuse).Retry != verdict.RetryWithBackoff {
			t.Fatalf("refusal %d: %+v", n, v)
		}
		s.Pending.Known.FinalErrors = n
	}
	v := AfterCreate(s, sentFor(world()), no)
	if got := shape(v); got != "Resolve then nothing CleanupGivenUp" {
		t.Errorf("at last: %s", got)
	}
	if text := v.Because().Text(); !strings.Contains(text, pvName) || !strings.Contains(text, "no such pool") {
		t.Errorf("it does not say what is left, and why: %s", text)
	}
	for row, tc := range map[string]struct{ before, asked int }{"refused before, however often": {1, 9}, "not refused before": {0, 10}} {
		s, asked := world(noClaim, refused(tc.before)), 0
		for {
			asked++
			note, goesOn := AfterCreate(s, sentFor(world()), no).(do).Actions[0].(Note)
			if !goesOn {
				break
			}
			s.Pending.Known = note.Known
		}
		if asked != tc.asked {
			t.Errorf("%s: asked %d times once the claim is gone, docs/limitations.md says %d", row, asked, tc.asked)
		}
	}
	wanted := world(refused(MaxFinalErrors))
	if v := AfterCreate(wanted, sentFor(world()), no).(do); v.Actions[0] != (Note{intent.Known{FinalErrors: 1}}) {
		t.Errorf("refusals count while the claim wants a volume: %+v", v)
	}
}

// volumeWith is the PersistentVolume of the claim with a handle.
func volumeWith(handle string) func(*Snapshot) {
	return func(s *Snapshot) { volumeOf(uid)(s); s.Volume.Spec.CSI.VolumeHandle = handle }
}

// H-14: a volume with a known handle is deleted, and CreateVolume is not repeated.
func TestKnownHandleIsDeleted(t *testing.T) {
	found := func(s *Snapshot) { pending(s); s.Pending.Known.Handle = "h" }
	for _, tc := range []struct {
		row  string
		edit func(*Snapshot)
		want string
	}{
		{"gone", noClaim, "DiscardVolume Resolve then nothing CleanedUp"},
		{"bound to another volume", bound, "DiscardVolume Resolve then nothing CleanedUp"},
		{"does not fit", func(*Snapshot) {}, "DiscardVolume Resolve then refuse CreateResponseInvalid"},
		{"has a PersistentVolume by now", volumeOf(uid), "Resolve then nothing VolumeProvisioned"},
		{"H-1 is a second one beside that of the PersistentVolume", volumeWith("h1"), "DiscardVolume Resolve then nothing VolumeExists"},
		{"H-1 likewise, and the class is gone", func(s *Snapshot) { volumeWith("h1")(s); s.Class = nil }, "DiscardVolume Resolve then nothing VolumeExists"},
		{"H-1 likewise, and the claim is bound", func(s *Snapshot) { volumeWith("h1")(s); boundToOurs(corev1.ClaimBound)(s) }, "DiscardVolume Resolve then nothing CleanedUp"},
	} {
		v := settled(world(tc.edit, found), time.Time{})
		if got := shape(v); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.row, got, tc.want)
		}
		if d, ok := v.(do).Actions[0].(DiscardVolume); ok && (d.Handle != "h" || d.Name != pvName) {
			t.Errorf("%s: %+v", tc.row, d)
		}
	}
}

// C-45, H-7: a volume that conflicts with the request was created by the replaced request.
func TestReplacedRequestIsRepeated(t *testing.T) {
	exists := Answer{Failure: &csispec.Failure{Code: codes.AlreadyExists, Message: "with other parameters"}}
	tape := sentFor(world(slower))
	if got := asked(AfterCreate(world(refused(1), slower), tape, exists)); got != "ssd" {
		t.Errorf("right after it was replaced: %q is asked for", got)
	}
	later := world(slower, func(s *Snapshot) {
		pending(s)
		first := *s.Pending
		s.Pending.Request, s.Pending.Replaced = tape.Request, &first
	})
	if got := asked(AfterCreate(later, tape, exists)); got != "ssd" {
		t.Errorf("later: %q is asked for", got)
	}
	if got := shape(AfterCreate(later, sentFor(world()), exists)); got != "Note then refuse CreateFailed" {
		t.Errorf("the previous one as well: %s", got)
	}
	if got := shape(AfterCreate(world(slower), tape, exists)); got != "Resolve then refuse CreateFailed" {
		t.Errorf("nothing was before: %s", got)
	}
}

// H-1: of several requests that may have created a volume, the newest is repeated first, and none
// is dropped.
func TestEachReplacedRequestIsRepeated(t *testing.T) {
	of := func(tier string) CreateVolume {
		return sentFor(world(func(s *Snapshot) { s.Class.Parameters["tier"] = tier }))
	}
	onRecord := func(known intent.Known) Snapshot {
		return world(func(s *Snapshot) {
			pending(s)
			first, second := *s.Pending, *s.Pending
			second.Request, second.Replaced = of("tape").Request, &first
			s.Pending.Request, s.Pending.Replaced, s.Pending.Known = of("paper").Request, &second, known
		})
	}
	for _, tc := range []struct {
		sent  string
		known intent.Known // of paper
		code  codes.Code
		want  string // what is asked for then
		unmet bool
	}{
		{"wood", intent.Known{FinalErrors: 1}, codes.AlreadyExists, "paper", true},
		{"paper", intent.Known{FinalErrors: 1}, codes.AlreadyExists, "tape", true},
		{"tape", intent.Known{FinalErrors: 1}, codes.AlreadyExists, "ssd", true},
		{"ssd", intent.Known{FinalErrors: 1}, codes.AlreadyExists, "", false},
		{"wood", intent.Known{FinalErrors: 1, NoVolume: true}, codes.AlreadyExists, "tape", true},
		{"paper", intent.Known{FinalErrors: 1, NoVolume: true}, codes.AlreadyExists, "tape", true},
		{"wood", intent.Known{FinalErrors: 1}, codes.NotFound, "", true},
		{"wood", intent.Known{FinalErrors: 1}, codes.Internal, "", false},
		{"paper", intent.Known{FinalErrors: 1}, codes.NotFound, "", false},
		{"paper", intent.Known{FinalErrors: 1, NoVolume: true}, codes.NotFound, "", true},
	} {
		v, ok := AfterCreate(onRecord(tc.known), of(tc.sent), Answer{Failure: &csispec.Failure{Code: tc.code}}).(do)
		if !ok || asked(v) != tc.want || v.Actions[0].(Note).Known.NoVolume != tc.unmet {
			t.Errorf("%s for %s, %+v known: %+v", tc.code, tc.sent, tc.known, v)
		}
	}
}

// H-1, H-15: if no claim wants the volume, each request that may have created one is repeated
// before a round of final errors counts. A request without an uncertain call is not repeated: the
// driver would reject its parameters, and say nothing of a volume of another request.
func TestUnwantedVolumeRepeatsEachRequest(t *testing.T) {
	of := func(tier string) CreateVolume {
		return sentFor(world(func(s *Snapshot) { s.Class.Parameters["tier"] = tier }))
	}
	onRecord := func(known intent.Known, edit func(*Snapshot)) Snapshot {
		return world(edit, func(s *Snapshot) {
			pending(s)
			first := *s.Pending
			s.Pending.Request, s.Pending.Replaced, s.Pending.Known = of("tape").Request, &first, known
		})
	}
	for _, tc := range []struct {
		row         string
		whyUnwanted func(*Snapshot)
		known       intent.Known // of tape
		want        string       // what is asked for first
		afterTape   string       // and after a refusal of tape
	}{
		{"gone, tape was refused at once", noClaim, intent.Known{FinalErrors: 3, NoVolume: true}, "ssd", "ssd"},
		{"gone, a call may have met either", noClaim, intent.Known{FinalErrors: 3}, "tape", "ssd"},
		{"being deleted", deleting, intent.Known{FinalErrors: 3, NoVolume: true}, "ssd", "ssd"},
		{"bound to another volume", bound, intent.Known{FinalErrors: 3, NoVolume: true}, "ssd", "ssd"},
		{"wanted, and refused at once: anew, by its class", func(s *Snapshot) { s.Class.Parameters["tier"] = "paper" }, intent.Known{FinalErrors: 1, NoVolume: true}, "paper", ""},
	} {
		s := onRecord(tc.known, tc.whyUnwanted)
		if got := asked(settled(s, time.Unix(1000, 0))); got != tc.want {
			t.Errorf("%s: %q is asked for first, want %q", tc.row, got, tc.want)
		}
		for _, code := range []codes.Code{codes.InvalidArgument, codes.NotFound, codes.ResourceExhausted, codes.Internal} {
			no := Answer{Failure: &csispec.Failure{Code: code, Message: "no"}}
			v, _ := AfterCreate(s, of("tape"), no).(do)
			if got := asked(v); got != tc.afterTape {
				t.Errorf("%s, %s for tape: %q is asked for then, want %q", tc.row, code, got, tc.afterTape)
			}
			if note := v.Actions[0].(Note); tc.afterTape != "" && note != (Note{intent.Known{FinalErrors: 3}}) {
				t.Errorf("%s, %s for tape counts before all were asked for: %+v", tc.row, code, note)
			}
			v, _ = AfterCreate(s, of("ssd"), no).(do)
			if note := v.Actions[0].(Note); asked(v) != "" || tc.afterTape != "" && note != (Note{intent.Known{FinalErrors: 4}}) {
				t.Errorf("%s, %s for ssd too: %+v", tc.row, code, v)
			}
		}
		if got := shape(AfterCreate(s, of("tape"), Answer{Failure: &csispec.Failure{Code: codes.Unavailable}})); got != "refuse CreateUncertain" {
			t.Errorf("%s, no answer for tape: %s", tc.row, got)
		}
	}
	last := onRecord(intent.Known{FinalErrors: MaxFinalErrors - 1, NoVolume: true}, noClaim)
	if got := shape(AfterCreate(last, of("ssd"), Answer{Failure: &csispec.Failure{Code: codes.NotFound}})); got != "Resolve then nothing CleanupGivenUp" {
		t.Errorf("at last: %s", got)
	}
}

// H-1: a replaced request takes the place of one that created no volume, and is not sent. It may
// have created one, so NoVolume is cleared.
func TestUnsentReplacedRequestMayHaveCreated(t *testing.T) {
	v, ok := NotSent(world(func(s *Snapshot) { refused(3)(s); s.Pending.Known.NoVolume = true }), errors.New("no answer")).(do)
	if !ok || v.Actions[0] != (Note{intent.Known{FinalErrors: 3}}) {
		t.Errorf("%+v", v)
	}
}

// A request that was not sent leaves the number of final errors as it was.
func TestUnsentKeepsFinalErrors(t *testing.T) {
	v, ok := NotSent(world(refused(3)), errors.New("no answer")).(do)
	if !ok || v.Actions[0] != (Note{intent.Known{FinalErrors: 3}}) {
		t.Errorf("%+v", v)
	}
}
