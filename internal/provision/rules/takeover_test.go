package provision

import (
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/csispec"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// H-1, H-6: after a takeover a live claim has its request repeated at once; what deletes a volume
// waits until the calls of the previous leader must have ended.
func TestTakeoverRepeatsAtOnceAndDeletesLater(t *testing.T) {
	now := time.Unix(1000, 0)
	tookOver := func(s *Snapshot) {
		pending(s)
		s.Pending.CallsEnd = now.Add(time.Second)
	}
	for _, tc := range []struct {
		row                string
		s                  Snapshot
		atOnce, afterwards verdict.Reason
	}{
		{"H-6 the claim wants its volume", world(tookOver), verdict.Provisioning, verdict.Provisioning},
		{"H-1 the claim is gone", world(tookOver, func(s *Snapshot) { s.Claim = nil }), verdict.WaitForPreviousLeaderCalls, verdict.Provisioning},
		{
			"H-1 the claim is terminating", world(tookOver, func(s *Snapshot) { s.Claim.DeletionTimestamp = new(metav1.Now()) }),
			verdict.WaitForPreviousLeaderCalls, verdict.Provisioning,
		},
		{"H-47 the class is gone", world(tookOver, func(s *Snapshot) { s.Class = nil }), verdict.WaitForPreviousLeaderCalls, verdict.Provisioning},
		{"H-1 the handle is known and the volume not wanted", world(tookOver, func(s *Snapshot) {
			s.Pending.Known, s.Claim = intent.Known{Handle: "h"}, nil
		}), verdict.WaitForPreviousLeaderCalls, verdict.CleanedUp},
		{"H-1 a volume of the claim may be under deletion", world(tookOver, func(s *Snapshot) {
			s.Pending.Discarding = true
		}), verdict.WaitForPreviousLeaderCalls, verdict.Provisioning},
	} {
		t.Run(tc.row, func(t *testing.T) {
			v := settled(tc.s, now)
			if got := v.Because().Reason; got != tc.atOnce {
				t.Errorf("at once: got %s, want %s", got, tc.atOnce)
			}
			if waits, ok := v.(wait); ok && !waits.Until.Equal(tc.s.Pending.CallsEnd) {
				t.Errorf("waits until %s", waits.Until)
			}
			if got := settled(tc.s, tc.s.Pending.CallsEnd).Because().Reason; got != tc.afterwards {
				t.Errorf("when the calls have ended: got %s, want %s", got, tc.afterwards)
			}
		})
	}
}

// H-1: the claim is deleted while its request is repeated. The handle is noted, and the volume is
// deleted when the previous leader's calls must have ended.
func TestAnsweredAfterTakeoverAndNotWanted(t *testing.T) {
	s := world(pending)
	s.Pending.CallsEnd = time.Unix(1000, 0)
	s.Claim.DeletionTimestamp = new(metav1.Now())
	sent := CreateVolume{Request: s.Pending.Request}
	v, ok := AfterCreate(s, sent, Answer{Volume: &csi.Volume{VolumeId: "h"}}).(do)
	if !ok || len(v.Actions) != 1 || v.Actions[0] != (Note{intent.Known{Handle: "h"}}) {
		t.Fatalf("got %+v", v)
	}
	if waits, ok := v.Then.(wait); !ok || !waits.Until.Equal(s.Pending.CallsEnd) {
		t.Errorf("then %+v", v.Then)
	}
}

// H-15: at most one request that may have created a volume is replaced. The next one is repeated
// unchanged until a final answer, and the event says how to start over.
func TestAtMostOneRequestIsReplaced(t *testing.T) {
	before := world(pending).Pending
	for _, tc := range []struct {
		row   string
		known intent.Known
		want  string // the tier that is asked for
	}{
		{"C-41 the second got a final error at once: the class as it is now", intent.Known{FinalErrors: 1, NoVolume: true}, "tape"},
		{"H-15 both may have created a volume: the recorded request", intent.Known{FinalErrors: 1}, "ssd"},
	} {
		s := world(slower, pending, func(s *Snapshot) {
			olderRequest := *before
			olderRequest.Request = proto.CloneOf(olderRequest.Request)
			olderRequest.Request.Parameters["tier"] = "paper"
			s.Pending.Replaced, s.Pending.Known = &olderRequest, tc.known
		})
		if got := asked(settled(s, time.Unix(0, 0))); got != tc.want {
			t.Errorf("%s: asks for %q, want %q", tc.row, got, tc.want)
		}
	}
	v := AfterCreate(world(pending), CreateVolume{Request: before.Request}, Answer{Failure: &csispec.Failure{Code: codes.DeadlineExceeded, Message: "late"}})
	if text := v.Because().Text(); !strings.Contains(text, "delete the claim") {
		t.Errorf("the event does not say how to start over: %s", text)
	}
}

func TestJournalFullIsReported(t *testing.T) {
	if got := shape(JournalFull(intent.ErrFull)); got != "refuse JournalFull" {
		t.Error(got)
	}
}

// H-14: a handle that a previous leader recorded is deleted without CreateVolume, when the calls of
// that leader must have ended. The driver may refuse CreateVolume for ever, since what the claim
// needed can be gone too; final errors do not end the deletion.
func TestRecordedHandleIsDeletedAfterTakeover(t *testing.T) {
	ends := time.Unix(1000, 0)
	for _, tc := range []struct {
		row  string
		edit func(*Snapshot)
		now  time.Time
		want string
	}{
		{"H-14 the claim is gone", noClaim, ends, "DiscardVolume Resolve then nothing CleanedUp"},
		{"H-14 its class too", func(s *Snapshot) { noClaim(s); s.Class = nil }, ends, "DiscardVolume Resolve then nothing CleanedUp"},
		{"H-14 after many final errors", func(s *Snapshot) {
			noClaim(s)
			s.Pending.Known.FinalErrors = 2 * MaxFinalErrors
		}, ends, "DiscardVolume Resolve then nothing CleanedUp"},
		{"H-14 a request was replaced", func(s *Snapshot) {
			noClaim(s)
			first := *s.Pending
			s.Pending.Replaced = &first
		}, ends, "DiscardVolume Resolve then nothing CleanedUp"},
		{"H-1 a call of the previous leader may be in flight", noClaim, ends.Add(-time.Second), "wait WaitForPreviousLeaderCalls"},
		{"the claim lives, and its class is not ours", func(s *Snapshot) { s.Class.Provisioner = "other" }, ends, "DiscardVolume Resolve then nothing ClassNotOurs"},
		{"the claim wants a volume: that one first", func(*Snapshot) {}, ends, "DiscardVolume Resolve then refuse CreateResponseInvalid"},
		{"D-37 it has a PersistentVolume", func(s *Snapshot) { noClaim(s); volumeWith("h")(s) }, ends, "Resolve then nothing ClaimGone"},
	} {
		s := world(pending)
		s.Pending.CallsEnd, s.Pending.Discarding, s.Pending.Known = ends, true, intent.Known{Handle: "h"}
		tc.edit(&s)
		if got := shape(settled(s, tc.now)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.row, got, tc.want)
		}
	}
	failed, ok := AfterDiscard("h", csispec.Failure{Code: codes.Internal, Message: "down"}).(do)
	if !ok || failed.Actions[0] != (Note{intent.Known{Handle: "h"}}) {
		t.Errorf("after a failed deletion: %+v", failed)
	}
}
