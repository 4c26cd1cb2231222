package reclaim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

const driver = "csi.example"

var releasedAt = time.Unix(10_000, 0)

// world is a snapshot of a volume of ours that was seen to be released just now, changed by edits.
func world(edits ...func(*Snapshot)) Snapshot {
	s := Snapshot{
		Name: "pv",
		Volume: &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name: "pv", UID: "u", Finalizers: []string{names.FinalizerVolume, names.FinalizerPVProtection},
				Annotations: map[string]string{names.AnnProvisionedBy: driver},
			},
			Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				ClaimRef:                      &corev1.ObjectReference{Namespace: "crew", Name: "logbook", UID: "c"},
				PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}},
			},
			Status: corev1.PersistentVolumeStatus{
				Phase: corev1.VolumeReleased, LastPhaseTransitionTime: &metav1.Time{Time: releasedAt},
			},
		},
		now:    releasedAt,
		Known:  Known{ReleasedFrom: "c"},
		Driver: Driver{Name: driver, Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME: true}},
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func phase(p corev1.PersistentVolumePhase) func(*Snapshot) {
	return func(s *Snapshot) { s.Volume.Status.Phase = p }
}

func policy(p corev1.PersistentVolumeReclaimPolicy) func(*Snapshot) {
	return func(s *Snapshot) { s.Volume.Spec.PersistentVolumeReclaimPolicy = p }
}

func reuse(how string) func(*Snapshot) {
	return func(s *Snapshot) { metav1.SetMetaDataAnnotation(&s.Volume.ObjectMeta, names.AnnReuse, how) }
}

func deleting(s *Snapshot)    { s.Volume.DeletionTimestamp = new(metav1.Now()) }
func noFinalizer(s *Snapshot) { s.Volume.Finalizers = nil }
func noClaim(s *Snapshot)     { s.Volume.Spec.ClaimRef = nil }
func live(s *Snapshot)        { s.IsLive = true }
func static(s *Snapshot)      { s.Volume.Annotations = nil }

// late has a process that did not observe the release.
func late(s *Snapshot) {
	live(s)
	s.Known.ReleasedFrom = ""
}

// with has what was read for a reference.
func with(what, name string, answer Answer) func(*Snapshot) {
	return func(s *Snapshot) { *s = s.With(verdict.Ref{What: what, Name: name}, answer) }
}

func attached(s *Snapshot) {
	s.Driver.Controller = map[csi.ControllerServiceCapability_RPC_Type]bool{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME: true, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME: true,
	}
	with(ReadAttachments, s.Name, Answer{Attached: []string{"n1"}})(s)
}

// decided returns the verdict about a snapshot around which there is nothing else. The volume, its claim
// and the list of all volumes are not read for it.
func decided(s Snapshot) Verdict {
	for {
		v := Decide(s, s.now)
		asks, ok := v.(verdict.Read[Action])
		if !ok || slices.Contains([]string{ReadVolume, ReadClaim, ReadAllVolumes}, asks.Refs[0].What) {
			return v
		}
		for _, ref := range asks.Refs {
			s = s.With(ref, Answer{})
		}
	}
}

func shape(v Verdict) string {
	switch v := v.(type) {
	case verdict.Read[Action]:
		return "read " + v.Refs[0].String()
	case nothing:
		return "nothing " + string(v.Reason)
	case wait:
		return "wait " + string(v.Reason)
	case refuse:
		return "refuse " + string(v.Reason)
	case do:
		out := ""
		for _, a := range v.Actions {
			out += fmt.Sprintf("%T ", a)[len("reclaim."):]
			if drop, is := a.(RemoveFinalizers); is {
				out += fmt.Sprintf("%q ", drop.Names)
			}
		}
		return out + "then " + shape(v.Then)
	}
	return "nil"
}

func TestDecide(t *testing.T) {
	all := reclaimed
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want string
	}{
		{"D-10 no volume", Snapshot{Driver: Driver{Name: driver}}, "nothing VolumeGone"},
		{"D-2 another driver's", world(func(s *Snapshot) { s.Volume.Annotations[names.AnnProvisionedBy] = "other" }), "nothing VolumeNotOurs"},
		{"D-2 written by hand for our driver", world(static), all},
		{"D-2 written by hand, not CSI", world(static, func(s *Snapshot) { s.Volume.Spec.CSI = nil }), "nothing VolumeNotOurs"},
		{"D-4 C5 released", world(), all},
		{"H-51 released, object deleted already", world(deleting), all},
		{"D-30 bound and deleting waits for the claim", world(phase(corev1.VolumeBound), deleting), "nothing VolumeInUse"},
		{"D-31 retain drops the finalizer", world(policy(corev1.PersistentVolumeReclaimRetain)), "RemoveFinalizerIfRetained then nothing VolumeKept"},
		{"D-31 retain without finalizer", world(policy(corev1.PersistentVolumeReclaimRetain), noFinalizer), "nothing VolumeKept"},
		{"C-80 retain while bound", world(policy(corev1.PersistentVolumeReclaimRetain), phase(corev1.VolumeBound)), "RemoveFinalizerIfRetained then nothing VolumeKept"},
		{"D-33 released, deleting, no finalizer: another process dealt with it", world(deleting, noFinalizer), "nothing VolumeAbandoned"},
		{"D-34 available and deleting, claim reference removed", world(phase(corev1.VolumeAvailable), deleting, noClaim, listed), all},
		{"D-34 not deleting: it may be in use", world(phase(corev1.VolumeAvailable), noClaim), "nothing VolumeInUse"},
		{"D-3 C-81 bound without finalizer gets one", world(phase(corev1.VolumeBound), noFinalizer), "AddFinalizer then nothing VolumeProtected"},
		{"D-3 bound with finalizer", world(phase(corev1.VolumeBound)), "nothing VolumeInUse"},
		{"D-3 pending", world(phase(corev1.VolumePending), noFinalizer), "nothing VolumeInUse"},
		{
			"8.14 the context of a trace keeps nothing",
			world(func(s *Snapshot) { s.Volume.Annotations[names.AnnTraceParent] = "x" }), all,
		},
		{"8.14 an annotation of ours that cannot be read", world(func(s *Snapshot) { s.Volume.Annotations[names.AnnReuse] = "bogus" }), "refuse ReuseInvalid"},
		{"8.14 an empty one, such as of an unset shell variable", world(reuse("")), "refuse ReuseInvalid"},
		{"8.14 a readable one, which no binder of ours served", world(reuse(names.ReuseAny)), "refuse ReuseKept"},
		{"8.15 for the next claim of the name", world(reuse(names.ReuseSameName)), "refuse ReuseKept"},
		{"8.25 for a claim elsewhere", world(reuse("other/d")), "refuse ReuseKept"},
		{"8.14 not seen to be released", world(reuse(names.ReuseAny), late, proof(ClaimGone)), "refuse ReuseKept"},
		{"8.14 failed", world(reuse(names.ReuseAny), phase(corev1.VolumeFailed), proof(ClaimGone)), "refuse ReuseKept"},
		{"8.14 its PersistentVolume is deleted too", world(reuse(names.ReuseAny), deleting), "refuse ReuseKept"},
		{"8.14 available, and its PersistentVolume is deleted", world(reuse(names.ReuseAny), phase(corev1.VolumeAvailable), deleting, noClaim, live), "refuse ReuseKept"},
		{"8.14 no finalizer is added to what is not deleted", world(reuse(names.ReuseAny), noFinalizer), "refuse ReuseKept"},
		{"8.14 the policy Retain comes first", world(reuse(names.ReuseAny), policy(corev1.PersistentVolumeReclaimRetain)), "RemoveFinalizerIfRetained then nothing VolumeKept"},
		{"8.14 one with an unknown name", world(func(s *Snapshot) { s.Volume.Annotations["purser/reuze"] = "any" }), "refuse ReuseInvalid"},
		{"D-12 no handle", world(func(s *Snapshot) { s.Volume.Spec.CSI.VolumeHandle = "" }), "refuse VolumeInvalid"},
		{"D-12 not CSI", world(func(s *Snapshot) { s.Volume.Spec.CSI = nil }), "refuse VolumeInvalid"},
		{"D-2 D-37 provisioned by us, and served by another driver", world(func(s *Snapshot) { s.Volume.Spec.CSI.Driver = "other" }), "refuse VolumeInvalid"},
		{"D-2 the same, kept", world(policy(corev1.PersistentVolumeReclaimRetain), func(s *Snapshot) { s.Volume.Spec.CSI.Driver = "other" }), "RemoveFinalizerIfRetained then nothing VolumeKept"},
		{"D-14 driver cannot delete", world(func(s *Snapshot) { s.Driver.Controller = nil }), "refuse VolumeInvalid"},
		{"protected by us as well", world(func(s *Snapshot) { s.Protector = true }), reclaimedUnprotected},
		{"D-16 attached", world(attached), "wait VolumeAttached"},
		{"the attacher is in this process, and its finalizer is not there", world(func(s *Snapshot) { s.Attacher = true }), all},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(decided(tc.s)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAfterDelete(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		if got := shape(AfterDelete(DeleteVolume{Handle: "h"}, csispec.Failure{Code: code, Message: "no"})); got != "refuse DeleteFailed" { // D-17
			t.Errorf("%s: %s", code, got)
		}
	}
}

// The attacher's finalizer is removed with ours if the attacher runs in this process, and if it is there.
func TestFinalizersOfOneProcess(t *testing.T) {
	attacher := names.AttacherFinalizer("d.example.com")
	for _, tc := range []struct {
		ours, there bool
		want        []string
	}{
		{true, true, []string{names.FinalizerVolume, attacher}},
		{true, false, []string{names.FinalizerVolume}},
		{false, true, []string{names.FinalizerVolume}},
	} {
		s := Snapshot{Attacher: tc.ours, Driver: Driver{Name: "d.example.com"}, Volume: &corev1.PersistentVolume{}}
		if tc.there {
			s.Volume.Finalizers = []string{attacher}
		}
		if got := finalizers(s); !slices.Equal(got, tc.want) {
			t.Errorf("in this process %t, there %t: %q, want %q", tc.ours, tc.there, got, tc.want)
		}
	}
}
