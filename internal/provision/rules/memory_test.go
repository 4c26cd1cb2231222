package provision

import (
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// Upstream holds these facts in process memory, and drops them with any response that is not an
// error; here the journal keeps them until the outcome is known.

// repeats reports whether the verdict repeats the recorded request.
func repeats(t *testing.T, v Verdict) bool {
	t.Helper()
	d, ok := v.(do)
	if !ok || len(d.Actions) == 0 {
		return false
	}
	create, ok := d.Actions[len(d.Actions)-1].(CreateVolume)
	want, _ := NewRequest(world())
	return ok && cmp.Equal(want, create.Request, protocmp.Transform())
}

// C-5, H-6: a claim that needs no volume any more keeps its entry, and the recorded request is
// repeated.
func TestEntryOutlivesTheClaim(t *testing.T) {
	for _, tc := range []struct {
		row  string
		edit func(*Snapshot)
	}{
		{"given to another provisioner meanwhile", annotate(names.AnnStorageProvisioner, "other")},
		{"not asked for any more", unasked},
		{"the node selection was taken back", firstUse},
		{"being deleted", deleting},
		{"bound to another volume", bound},
		{"gone", noClaim},
		{"its class is gone", func(s *Snapshot) { s.Class = nil }},
		{"its class is another driver's", func(s *Snapshot) { s.Class.Provisioner = "other" }},
		{"the driver lost the capability", func(s *Snapshot) { s.Driver.Controller = nil }},
	} {
		t.Run("C-5 "+tc.row, func(t *testing.T) {
			if v := settled(world(tc.edit), time.Time{}); repeats(t, v) {
				t.Errorf("begun without a record: %+v", v)
			}
			if v := settled(world(tc.edit, pending), time.Time{}); !repeats(t, v) {
				t.Errorf("the record was forgotten: %+v", v)
			}
		})
	}
}

// H-1: the entry of a previous leader is repeated, whatever the claim requests by now.
func TestEntryOfThePreviousLeader(t *testing.T) {
	for name, edit := range map[string]func(*Snapshot){
		"asks no provisioner":     unasked,
		"asks for it":             func(*Snapshot) {},
		"handed over":             func(s *Snapshot) { unasked(s); handedOver(s) },
		"asks another driver":     annotate(names.AnnStorageProvisioner, "other"),
		"bound to another volume": bound,
		"gone":                    noClaim,
	} {
		if v := settled(world(pending, edit), time.Time{}); !repeats(t, v) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// C-34: a failure before the call adds no entry and keeps an existing one.
func TestFailureBeforeTheCallChangesNothing(t *testing.T) {
	missing := func(s *Snapshot) {
		s.Class.Parameters[names.ParameterProvisionerSecretName], s.Class.Parameters[names.ParameterProvisionerSecretNamespace] = "s", "crew"
		s.Secret.Access = Missing
	}
	if got := shape(settled(world(missing), time.Time{})); got != "refuse SecretMissing" {
		t.Errorf("C-34 before the record: %s", got)
	}
	ref := types.NamespacedName{Namespace: "crew", Name: "s"}
	for _, access := range []Access{Missing, Forbidden} {
		if v, ok := AfterSecret(world(pending, missing), ref, Secret{Access: access}).(refuse); !ok || v.Retry != verdict.RetryWithBackoff {
			t.Errorf("C-34 after the record, access %v: %+v, want a retry and no Resolve", access, v)
		}
	}
}

// Bugs of older versions of upstream (C-100 to C-109), step by step.
func TestRegressionsOfUpstream(t *testing.T) {
	now := time.Unix(1000, 0)
	created := CreateVolume{}
	created.Request, _ = NewRequest(world())
	after := func(code codes.Code) Verdict {
		return AfterCreate(world(), created, Answer{Failure: &csispec.Failure{Code: code, Message: "no"}})
	}

	t.Run("C-100 a timeout leaves the request in progress, also when the claim goes", func(t *testing.T) {
		if got := shape(after(codes.DeadlineExceeded)); got != "refuse CreateUncertain" {
			t.Fatalf("the record does not stay: %s", got)
		}
		if !repeats(t, settled(world(noClaim, pending), now)) {
			t.Error("forgotten with the claim")
		}
	})
	t.Run("C-101 a PV that cannot be written does not cost the volume", func(t *testing.T) {
		pv := NewVolume(world(), created, &csi.Volume{VolumeId: "h"})
		for _, w := range []Written{{Message: "timeout"}, {Reason: metav1.StatusReasonForbidden, Message: "denied"}} {
			if v, ok := AfterWrite(pv, w).(refuse); !ok || v.Retry != verdict.RetryWithBackoff {
				t.Errorf("%+v: %+v, want to try again and neither DiscardVolume nor Resolve", w, v)
			}
		}
	})
	t.Run("C-102 no room is not asked for again once the claim is gone", func(t *testing.T) {
		if got := shape(after(codes.ResourceExhausted)); got != "Resolve then refuse CreateExhausted" {
			t.Fatal(got)
		}
		if got := shape(settled(world(noClaim), now)); got != "nothing ClaimGone" {
			t.Error(got)
		}
	})
	t.Run("C-105 an infeasible request is not a hot loop", func(t *testing.T) {
		if v := after(codes.InvalidArgument).(do).Then.(refuse); v.Retry != verdict.RetrySlowly {
			t.Errorf("%+v", v)
		}
	})
}

// C-10, C-42: an infeasible request waits for its backoff, whatever event enqueues the claim. A
// class that is created again ends it at once. Each claim has its own backoff.
func TestInfeasibleWaits(t *testing.T) {
	now := time.Unix(1000, 0)
	slow := RetryState{NotBefore: now.Add(5 * time.Minute), Inputs: Inputs(world())}
	failed := func(s *Snapshot) { s.Retry = slow }
	v, ok := settled(world(failed), now).(wait)
	if !ok || v.Reason != verdict.WaitForRetry || !v.Until.Equal(slow.NotBefore) {
		t.Errorf("C-10: %+v, want to wait until %s", v, slow.NotBefore)
	}
	if verdict.Describe(v.Reason).Severity != verdict.Silent {
		t.Error("C-10: waiting has an event")
	}
	again := world(failed, func(s *Snapshot) { s.Class.UID = "made again" })
	if v := settled(again, now); v.Because().Reason != verdict.Provisioning {
		t.Errorf("C-10 class made again: %+v", v)
	}
	if v := settled(world(failed), slow.NotBefore); v.Because().Reason != verdict.Provisioning {
		t.Errorf("C-10 when it is due: %+v", v)
	}
}

// C-2, U-23: an event without an edit of the claim, such as a resync, does not shorten the wait
// after any failure.
func TestEventsDoNotShortenTheWait(t *testing.T) {
	now := time.Unix(1000, 0)
	failed := func(s *Snapshot) { s.Retry = RetryState{NotBefore: now.Add(time.Hour), Inputs: Inputs(world())} }
	touched := func(s *Snapshot) {
		s.Claim.ResourceVersion = "8"
		s.Claim.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "other"}}
	}
	for _, s := range []Snapshot{world(failed), world(failed, touched), world(failed, pending, touched)} {
		if v, ok := settled(s, now).(wait); !ok || !v.Until.Equal(now.Add(time.Hour)) {
			t.Errorf("C-2: %+v", v)
		}
	}
}

// C-27, C-32, C-35: no capacity, with a selected node and without. With one, the scheduler has to
// select another; without, the call is retried.
func TestNoRoom(t *testing.T) {
	exhausted := Answer{Failure: &csispec.Failure{Code: codes.ResourceExhausted, Message: "full"}}
	for _, tc := range []struct {
		row   string
		edits []func(*Snapshot)
		want  string
	}{
		{"C-27 topology, no node was selected", []func(*Snapshot){hasTopology}, "Resolve then refuse CreateExhausted"},
		{"C-27 a node, but no topology", []func(*Snapshot){annotate(names.AnnSelectedNode, "n1")}, "Resolve then refuse CreateExhausted"},
		{"C-32 C-35 a node is taken back, and that is all", []func(*Snapshot){hasTopology, annotate(names.AnnSelectedNode, "n1")}, "Resolve Reschedule then nothing Rescheduled"},
		{"C-32 the claim is gone meanwhile", []func(*Snapshot){hasTopology, noClaim}, "Resolve then refuse CreateExhausted"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(AfterCreate(world(tc.edits...), CreateVolume{}, exhausted)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// AN-4: the annotation of the alpha version selects no node: upstream waits for the later
// annotation before it reads either.
func TestAlphaSelectedNodeIsNoSelection(t *testing.T) {
	alpha := annotate(names.AnnAlphaSelectedNode, "n1")
	if got := shape(settled(world(firstUse, alpha), time.Time{})); got != "wait WaitForConsumer" {
		t.Errorf("AN-4 alone: %s", got)
	}
	if v := settled(world(firstUse, alpha, annotate(names.AnnSelectedNode, "n1")), time.Time{}); v.Because().Reason != verdict.Provisioning {
		t.Errorf("AN-4 beside AN-3: %+v", v)
	}
}

// EV-4: only the driver refuses raw block.
func TestBlockIsAskedOfEveryDriver(t *testing.T) {
	block := func(s *Snapshot) { s.Claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }
	v, ok := settled(world(block), time.Time{}).(do)
	if !ok {
		t.Fatalf("EV-4: %+v", v)
	}
	if create := v.Actions[1].(CreateVolume); create.Request.GetVolumeCapabilities()[0].GetBlock() == nil {
		t.Errorf("EV-4: %v", create.Request)
	}
}

// the parameters are those of the class without the provisioner's own; an empty map if there
// are none.
func TestRequestParameters(t *testing.T) {
	all := func(s *Snapshot) {
		s.Class.Parameters = map[string]string{"tier": "ssd", "csiProvisionerSecretName": "old", "csiProvisionerSecretNamespace": "crew"}
		for _, key := range known {
			if key != names.OwnParameterMinimumSize {
				s.Class.Parameters[key] = "x"
			}
		}
		for _, key := range []string{names.ParameterProvisionerSecretName, names.ParameterProvisionerSecretNamespace} {
			delete(s.Class.Parameters, key) // the older spelling is there
		}
	}
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want map[string]string
	}{
		{"R-4 the class's", world(), map[string]string{"tier": "ssd"}},
		{"R-4 R-30 R-31 every known key goes, the older spelling stays", world(all), map[string]string{"tier": "ssd", "csiProvisionerSecretName": "old", "csiProvisionerSecretNamespace": "crew"}},
		{"R-4 R-33 none", world(func(s *Snapshot) { s.Class.Parameters = nil }), map[string]string{}},
	} {
		t.Run(tc.row, func(t *testing.T) {
			request, finding := NewRequest(tc.s)
			if finding != nil {
				t.Fatal(finding.Text())
			}
			if diff := cmp.Diff(tc.want, request.GetParameters()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// the request has a topology requirement if the driver has topology and a node is selected.
func TestRequestPlace(t *testing.T) {
	node := func(s *Snapshot) {
		s.Claim.Annotations[names.AnnSelectedNode] = "n1"
		s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "a"}}}
		s.CSINode = &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, TopologyKeys: []string{"zone"}}}}}
	}
	for _, tc := range []struct {
		row   string
		edits []func(*Snapshot)
		want  bool
	}{
		{"R-7 all of it", []func(*Snapshot){hasTopology, firstUse, node}, true},
		{"R-7 a driver without places", []func(*Snapshot){firstUse, node}, false},
		{"R-7 C-22 immediate binding by now, as with a class that was made again", []func(*Snapshot){hasTopology, node}, true},
		{"R-7 no node", []func(*Snapshot){hasTopology, firstUse}, false},
	} {
		t.Run(tc.row, func(t *testing.T) {
			request, finding := NewRequest(world(tc.edits...))
			if finding != nil {
				t.Fatal(finding.Text())
			}
			place := []*csi.Topology{{Segments: map[string]string{"zone": "a"}}}
			want := &csi.TopologyRequirement{Requisite: place, Preferred: place}
			if !tc.want {
				want = nil
			}
			if diff := cmp.Diff(want, request.GetAccessibilityRequirements(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// P-19, C-84: labels and annotations of the claim are not copied to the volume, and the claim is
// not written.
func TestVolumeHasNoClaimMetadata(t *testing.T) {
	s := world(annotate("example.com/other", "note"), func(s *Snapshot) {
		s.Claim.Labels, s.Class.Labels = map[string]string{"crew": "night"}, map[string]string{"tier": "ssd"}
	})
	pv := NewVolume(s, CreateVolume{Request: &csi.CreateVolumeRequest{Name: pvName}}, &csi.Volume{VolumeId: "h"})
	if len(pv.Labels) > 0 {
		t.Errorf("P-19: labels %v", pv.Labels)
	}
	ours := []string{names.AnnProvisionedBy, names.AnnDeletionSecretName, names.AnnDeletionSecretNamespace}
	for key := range pv.Annotations {
		if !slices.Contains(ours, key) {
			t.Errorf("P-19: annotation %s", key)
		}
	}
	before := s.Claim.DeepCopy()
	for v := settled(s, time.Time{}); ; {
		d, ok := v.(do)
		if !ok {
			break
		}
		for _, a := range d.Actions {
			if _, is := a.(Reschedule); is {
				t.Error("C-84: the claim is written")
			}
		}
		if v = d.Then; v == nil {
			v = AfterCreate(s, d.Actions[1].(CreateVolume), Answer{Volume: &csi.Volume{VolumeId: "h"}})
		}
	}
	if diff := cmp.Diff(before, s.Claim); diff != "" {
		t.Errorf("C-84: the claim was changed:\n%s", diff)
	}
}

// A volume that the informer cache does not have is requeued: no event would show its deletion, and
// the claim would wait for ever.
func TestUncachedVolumeIsRequeued(t *testing.T) {
	uncached := func(s *Snapshot) { s.VolumeUnseen = true }
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		v    Verdict
		want bool
	}{
		"seen":                        {settled(world(volumeOf(uid)), now), false},
		"not seen":                    {settled(world(volumeOf(uid), uncached), now), true},
		"not cached and not resolved": {settled(world(pending, volumeOf(uid), uncached), now).(do).Then, true},
	} {
		if w, waits := tc.v.(wait); waits != tc.want || waits && w.Until != now.Add(volumeRecheck) {
			t.Errorf("%s: %+v", name, tc.v)
		}
	}
}
