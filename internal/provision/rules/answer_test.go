package provision

import (
	"fmt"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// shape is the kinds of the actions, in order, and what follows.
func shape(v Verdict) string {
	d, ok := v.(do)
	if !ok {
		return kind(v) + " " + string(v.Because().Reason)
	}
	out := ""
	for _, a := range d.Actions {
		out += fmt.Sprintf("%T ", a)[len("provision."):]
	}
	return out + "then " + shape(d.Then)
}

func TestAfterCreateByCode(t *testing.T) {
	selected := func(s *Snapshot) { hasTopology(s); annotate(names.AnnSelectedNode, "n1")(s) }
	uncertain := "refuse CreateUncertain"
	final := "Resolve then refuse CreateFailed"
	kept := "Note then refuse CreateFailed"
	for _, tc := range []struct {
		row          string
		codes        []codes.Code
		plain, place string
		doubt        string // an earlier call for what is in the journal has ended without a clear answer
	}{
		{
			"C-40 C-33 C-45 nothing is known: the record stays",
			[]codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.Unavailable},
			uncertain, uncertain, uncertain,
		},
		{
			"C-41 C-26 C-35 no room",
			[]codes.Code{codes.ResourceExhausted},
			"Resolve then refuse CreateExhausted", "Resolve Reschedule then nothing Rescheduled", "Note then refuse CreateExhausted",
		},
		{
			"C-42 infeasible",
			[]codes.Code{codes.InvalidArgument},
			"Resolve then refuse CreateInfeasible", "Resolve then refuse CreateInfeasible", "Note then refuse CreateInfeasible",
		},
		{"C-43 C-31 final", []codes.Code{
			codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition, codes.OutOfRange,
			codes.Unimplemented, codes.Unauthenticated,
		}, final, final, kept},
		{"C-43 H-15 half done, for all we know", []codes.Code{codes.Unknown, codes.Internal, codes.DataLoss}, kept, kept, kept},
	} {
		for _, code := range tc.codes {
			t.Run(fmt.Sprintf("%s %s", tc.row, code), func(t *testing.T) {
				request, _ := NewRequest(world())
				sent, a := CreateVolume{Request: request}, Answer{Failure: &csispec.Failure{Code: code, Message: "no"}}
				if got := shape(AfterCreate(world(), sent, a)); got != tc.plain {
					t.Errorf("without topology: %s, want %s", got, tc.plain)
				}
				if got := shape(AfterCreate(world(selected), sent, a)); got != tc.place {
					t.Errorf("with a selected node: %s, want %s", got, tc.place)
				}
				if got := shape(AfterCreate(world(pending), sent, a)); got != tc.doubt {
					t.Errorf("after an uncertain call: %s, want %s", got, tc.doubt)
				}
			})
		}
	}
	t.Run("C-44 not a gRPC error", func(t *testing.T) {
		if got := shape(AfterCreate(world(), CreateVolume{}, Answer{Failure: &csispec.Failure{NoAnswer: true}})); got != uncertain {
			t.Error(got)
		}
	})
	t.Run("C-42 is retried slowly", func(t *testing.T) {
		d := AfterCreate(world(), CreateVolume{}, Answer{Failure: &csispec.Failure{Code: codes.InvalidArgument}}).(do)
		if d.Then.(refuse).Retry != verdict.RetrySlowly {
			t.Error("retried with the usual delay")
		}
	})
}

func TestAfterCreateSuccess(t *testing.T) {
	volume := func(bytes int64) *csi.Volume { return &csi.Volume{VolumeId: "h", CapacityBytes: bytes} }
	for _, tc := range []struct {
		row    string
		s      Snapshot
		volume *csi.Volume
		want   string
	}{
		{"C-23 C-24 C-30 the PV is written, then the entry resolved", world(), volume(1 << 30), "WriteVolume Resolve then nothing VolumeProvisioned"},
		{"C-71 capacity not told", world(), volume(0), "WriteVolume Resolve then nothing VolumeProvisioned"},
		{"C-71 larger is fine", world(), volume(2 << 30), "WriteVolume Resolve then nothing VolumeProvisioned"},
		{"performance 5: an id that would break what it is put into", world(), &csi.Volume{VolumeId: "h\n"}, "DiscardVolume Resolve then refuse CreateResponseInvalid"},
		{"C-71 H-2 too small: deleted, then resolved", world(), volume(1), "DiscardVolume Resolve then refuse CreateResponseInvalid"},
		{"C-70 H-10 no volume", world(), nil, "refuse CreateResponseInvalid"},
		{"C-70 no id", world(), &csi.Volume{}, "refuse CreateResponseInvalid"},
		{"C-91 claim gone: deleted, then resolved", world(noClaim), volume(1 << 30), "DiscardVolume Resolve then nothing CleanedUp"},
		{"C-93 claim deleting", world(deleting), volume(1 << 30), "DiscardVolume Resolve then nothing CleanedUp"},
		{"class gone: the claim says so and waits for one", world(func(s *Snapshot) { s.Class = nil }), volume(1 << 30), "DiscardVolume Resolve then refuse ClassMissing"},
		{
			"class created again for another driver: not ours to describe", world(func(s *Snapshot) { s.Class.Provisioner = "other" }),
			volume(1 << 30), "DiscardVolume Resolve then nothing ClassNotOurs",
		},
		{"claim bound to another volume", world(bound), volume(1 << 30), "DiscardVolume Resolve then nothing CleanedUp"},
		{
			"H-1 claim has a PersistentVolume of another driver by now", world(volumeOf(uid), ofOtherDriver), volume(1 << 30),
			"DiscardVolume Resolve then nothing CleanedUp",
		},
	} {
		t.Run(tc.row, func(t *testing.T) {
			request, _ := NewRequest(world())
			if got := shape(AfterCreate(tc.s, CreateVolume{Request: request}, Answer{Volume: tc.volume})); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// A discarded volume has the name of its PersistentVolume. It is kept if that PersistentVolume, or
// another one with its handle, exists.
func TestIsNeeded(t *testing.T) {
	request, _ := NewRequest(world())
	discard, ok := AfterCreate(world(noClaim), CreateVolume{Request: request}, Answer{Volume: &csi.Volume{VolumeId: "h"}}).(do).Actions[0].(DiscardVolume)
	if !ok || discard.Name != pvName || discard.Handle != "h" {
		t.Errorf("discarded is %+v", discard)
	}
	isGoingNow := func(s *Snapshot) {
		s.Volume.Status.Phase, s.Volume.Spec.PersistentVolumeReclaimPolicy = corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete
	}
	anotherHandle := func(s *Snapshot) { s.Volume.Spec.CSI.VolumeHandle = "i" }
	own, other := world(volumeOf(uid)).Volume, world(volumeOf("other")).Volume
	other.Name = "pv-other"
	const kept, secondVolume = "Resolve then nothing VolumeExists", "Resolve then refuse VolumeConflict"
	for _, tc := range []struct {
		row     string
		s       Snapshot
		sharing []*corev1.PersistentVolume
		want    string // empty for none
	}{
		{"none", world(), nil, ""},
		{"that of the claim", world(volumeOf(uid)), nil, kept},
		{"of the same volume for another claim", world(volumeOf("other")), nil, kept},
		{"of another driver", world(volumeOf(uid), ofOtherDriver), nil, ""},
		{"of another volume, for another claim", world(volumeOf("other"), anotherHandle), nil, ""},
		{"of another volume, for this claim: it may be the same data", world(volumeOf(uid), anotherHandle), nil, secondVolume},
		{"H-1 of another volume, for this claim, and it goes", world(volumeOf(uid), anotherHandle, isGoingNow), nil, ""},
		{"of none", world(volumeOf(uid), func(s *Snapshot) { s.Volume.Spec.CSI = nil }), nil, ""},
		{"D-37 under another name with the same handle", world(), []*corev1.PersistentVolume{own, other}, secondVolume},
		{"D-37 what memory shows under this name counts for nothing: the API server was asked", world(), []*corev1.PersistentVolume{own}, ""},
		{"N-9 the one of the name is on another node, and has the same handle", world(onOwnNode), []*corev1.PersistentVolume{own}, kept},
	} {
		got := IsNeeded(tc.s, discard, tc.s.Volume, tc.sharing)
		if tc.want == "" && got != nil || tc.want != "" && (got == nil || shape(got) != tc.want) {
			t.Errorf("%s: %v", tc.row, got)
		}
	}
}

func TestNewVolume(t *testing.T) {
	s := world(hasTopology, func(s *Snapshot) {
		s.Class.ReclaimPolicy = ptr.To(corev1.PersistentVolumeReclaimDelete)
		s.Class.MountOptions = []string{"noatime"}
		s.Class.Parameters[names.ParameterFSType] = "xfs"
		s.Claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	})
	request, finding := NewRequest(s)
	if finding != nil {
		t.Fatal(finding.Text())
	}
	got := NewVolume(s, CreateVolume{Request: request}, &csi.Volume{
		VolumeId: "handle", CapacityBytes: 2 << 30, VolumeContext: map[string]string{"k": "v"},
		AccessibleTopology: []*csi.Topology{{Segments: map[string]string{"zone": "a", "rack": "1"}}, {}},
	})
	want := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: pvName, Finalizers: []string{names.FinalizerVolume}, // P-1, P-15, FI-1, C-80
			Annotations: map[string]string{ // P-14, AN-7, AN-8
				names.AnnProvisionedBy: driver, names.AnnDeletionSecretName: "", names.AnnDeletionSecretNamespace: "",
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   s.Claim.Spec.AccessModes,                                                                                                                     // P-2
			MountOptions:                  []string{"noatime"},                                                                                                                          // P-3
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},                                                                       // P-4
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,                                                                                                         // P-10
			VolumeMode:                    ptr.To(corev1.PersistentVolumeFilesystem),                                                                                                    // P-11
			StorageClassName:              "fast",                                                                                                                                       // P-17
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "crew", Name: "logbook", UID: uid, ResourceVersion: "7"}, // P-16
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{ // P-12
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "rack", Operator: corev1.NodeSelectorOpIn, Values: []string{"1"}},
					{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}},
				},
			}}}},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driver, VolumeHandle: "handle", FSType: "xfs", // P-5, P-9
				VolumeAttributes: map[string]string{names.AttributeProvisionerIdentity: "me", "k": "v"}, // P-6, AN-11
			}},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("PersistentVolume (-want +got):\n%s", diff)
	}
}

func TestNewVolumeDetails(t *testing.T) {
	readOnlyMany := func(s *Snapshot) {
		s.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
		s.Options.ControllerPublishReadOnly = true
	}
	build := func(s Snapshot, v *csi.Volume) *corev1.PersistentVolume {
		request, finding := NewRequest(s)
		if finding != nil {
			t.Fatal(finding.Text())
		}
		return NewVolume(s, CreateVolume{Request: request}, v)
	}
	if pv := build(world(readOnlyMany), &csi.Volume{}); !pv.Spec.CSI.ReadOnly {
		t.Error("P-8: not read-only")
	}
	if pv := build(world(readOnlyMany, func(s *Snapshot) { s.Options.ControllerPublishReadOnly = false }), &csi.Volume{}); pv.Spec.CSI.ReadOnly {
		t.Error("P-8: read-only without the flag")
	}
	if pv := build(world(), &csi.Volume{}); pv.Spec.Capacity.Storage().Value() != 1<<30 {
		t.Errorf("C-71: capacity %s", pv.Spec.Capacity.Storage())
	}
	if pv := build(world(hasTopology), &csi.Volume{AccessibleTopology: []*csi.Topology{{}, nil}}); pv.Spec.NodeAffinity != nil {
		t.Error("P-12 H-3: affinity without terms is refused by the API server")
	}
	placed := &csi.Volume{AccessibleTopology: []*csi.Topology{{Segments: map[string]string{"zone": "a"}}}}
	if pv := build(world(hasTopology), placed); pv.Spec.NodeAffinity == nil {
		t.Error("P-12: no affinity, though the driver says where the volume is")
	}
	if pv := build(world(), placed); pv.Spec.NodeAffinity != nil {
		t.Error("P-12 T-1: affinity, though topology is off: no node has the labels, and pods would wait for ever")
	}
	if pv := build(world(annotate(names.AnnBetaStorageClass, "old")), &csi.Volume{}); pv.Spec.StorageClassName != "old" {
		t.Errorf("AN-6: class %q", pv.Spec.StorageClassName)
	}
}

func TestAfterWrite(t *testing.T) {
	s := world()
	request, _ := NewRequest(s)
	want := NewVolume(s, CreateVolume{Request: request}, &csi.Volume{VolumeId: "h"})
	other := want.DeepCopy()
	other.Spec.CSI.VolumeHandle = "another"
	foreign := want.DeepCopy()
	foreign.Spec.ClaimRef.UID = "another"
	going, kept := other.DeepCopy(), other.DeepCopy()
	going.Status.Phase, kept.Status.Phase = corev1.VolumeReleased, corev1.VolumeReleased
	going.Spec.PersistentVolumeReclaimPolicy, kept.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain
	driven := want.DeepCopy()
	driven.Spec.CSI.Driver = "another"
	for _, tc := range []struct {
		row  string
		w    Written
		want string
	}{
		{"C-24 the same exists: an earlier write was taken and its answer lost", Written{Existing: want.DeepCopy()}, "Resolve then nothing VolumeProvisioned"},
		{"H-5 another handle: it may be the same data, so neither is deleted", Written{Existing: other}, "Resolve then refuse VolumeConflict"},
		{"H-1 another handle, released: what it has is to go, too", Written{Existing: going}, "Note then refuse VolumeConflict"},
		{"H-5 another handle, released and kept", Written{Existing: kept}, "Resolve then refuse VolumeConflict"},
		{"H-5 another driver", Written{Existing: driven}, "refuse VolumeConflict"},
		{"H-5 another claim", Written{Existing: foreign}, "refuse VolumeConflict"},
		{"H-5 not a CSI volume", Written{Existing: &corev1.PersistentVolume{}}, "refuse VolumeConflict"},
		{"H-3 refused: an event, and the record stays", Written{Reason: metav1.StatusReasonForbidden, Message: "denied"}, "refuse VolumeRejected"},
		{"C-24 not written: the record stays", Written{Message: "timeout"}, "refuse WriteFailed"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(AfterWrite(want, tc.w)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	if got := shape(AfterDiscard("h", csispec.Failure{Code: codes.Internal})); got != "Note then refuse CreateResponseInvalid" {
		t.Errorf("H-14: %s", got)
	}
}

// H-16: a volume is not deleted without a secret that may not be read, and its handle stays known.
func TestAfterDiscardSecret(t *testing.T) {
	a := DiscardVolume{Name: "pvc-u", Handle: "h", Secret: types.NamespacedName{Namespace: "vault", Name: "delete"}}
	for access, want := range map[Access]verdict.Reason{Forbidden: verdict.SecretForbidden, Unknown: verdict.WriteFailed} {
		got, ok := AfterDiscardSecret(a, Secret{Access: access}).(do)
		if !ok || got.Reason != want || len(got.Actions) != 1 {
			t.Fatalf("%v: %+v", access, got)
		}
		if note, ok := got.Actions[0].(Note); !ok || note.Known.Handle != "h" {
			t.Errorf("%v: %+v", access, got.Actions)
		}
		if then, ok := got.Then.(refuse); !ok || then.Reason != want || (access == Forbidden) != (then.Fix != "") {
			t.Errorf("%v: %+v", access, got.Then)
		}
	}
}

// H-3: which answers of the API server are about the object itself.
func TestIsRejected(t *testing.T) {
	for reason, want := range map[metav1.StatusReason]bool{
		metav1.StatusReasonInvalid: true, metav1.StatusReasonForbidden: true, metav1.StatusReasonBadRequest: true,
		metav1.StatusReasonTimeout: false, metav1.StatusReasonConflict: false, metav1.StatusReasonAlreadyExists: false, "": false,
	} {
		if got := (Written{Reason: reason}).isRejected(); got != want {
			t.Errorf("%q: %v, want %v", reason, got, want)
		}
	}
}

// D-37: after which responses to the write of a PersistentVolume it is unknown whether the object
// exists.
func TestUnconfirmedWrite(t *testing.T) {
	for _, tc := range []struct {
		written Written
		want    bool
	}{
		{Written{}, true}, // no answer, or one that may be another at the next attempt
		{Written{Refused: true, Reason: metav1.StatusReasonAlreadyExists}, true},
		{Written{Refused: true, Reason: metav1.StatusReasonForbidden}, false},
		{Written{Refused: true, Reason: metav1.StatusReasonInvalid}, false},
	} {
		if got := tc.written.IsUnconfirmed(); got != tc.want {
			t.Errorf("%+v: %t", tc.written, got)
		}
	}
}

// The attacher's finalizer is there from the start if the attacher is in the same process, and never for a
// driver that attaches nothing: nothing would remove it.
func TestNewVolumeHasTheAttachersFinalizer(t *testing.T) {
	publishes := map[csi.ControllerServiceCapability_RPC_Type]bool{
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME: true,
	}
	for _, tc := range []struct {
		attaches bool
		can      map[csi.ControllerServiceCapability_RPC_Type]bool
		want     []string
	}{
		{true, publishes, []string{names.FinalizerVolume, names.AttacherFinalizer(driver)}},
		{true, nil, []string{names.FinalizerVolume}},
		{false, publishes, []string{names.FinalizerVolume}},
	} {
		s := Snapshot{Options: Options{Attaches: tc.attaches}, Driver: Driver{Name: driver, Controller: tc.can}}
		if got := finalizers(s); !slices.Equal(got, tc.want) {
			t.Errorf("attaches %t, capabilities %v: %q, want %q", tc.attaches, tc.can, got, tc.want)
		}
	}
}
