package reclaim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// proof has the API server and the cache read about the claim of the volume. The volume is read live,
// since otherwise no claim is asked for.
func proof(p Proof) func(*Snapshot) {
	return func(s *Snapshot) {
		live(s)
		ref := s.Volume.Spec.ClaimRef
		if ref == nil {
			return
		}
		if p == NotRead {
			delete(s.Read, claimRef(s.Volume))
			return
		}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: ref.UID}}
		*s = s.With(claimRef(s.Volume), map[Proof]Answer{
			ClaimExists: {Claim: claim, CachedClaim: claim}, ClaimUncached: {Claim: claim},
		}[p])
	}
}

func reserved(s *Snapshot) { s.Volume.Spec.ClaimRef.UID = "" }

// listed has had all volumes listed, and found no other one with the handle.
func listed(s *Snapshot) {
	live(s)
	*s = s.With(s.handleRef(ReadAllVolumes), Answer{})
}

func emptied(s *Snapshot)   { *s.Volume.Spec.ClaimRef = corev1.ObjectReference{} }
func unnamed(s *Snapshot)   { s.Volume.Spec.ClaimRef.Name = "" }
func spaceless(s *Snapshot) { s.Volume.Spec.ClaimRef.Namespace = "" }

const (
	reclaimed = `DeleteVolume RemoveFinalizers ["external-provisioner.volume.kubernetes.io/finalizer"] DeleteObject then nothing VolumeReclaimed`
	// reclaimedUnprotected takes the finalizer of pv-protection too.
	reclaimedUnprotected = `DeleteVolume RemoveFinalizers ["external-provisioner.volume.kubernetes.io/finalizer" ` +
		`"kubernetes.io/pv-protection"] DeleteObject then nothing VolumeReclaimed`
	protected = "AddFinalizer " + reclaimed
	looks     = "read all PersistentVolumes with the handle/h"
	asks      = "read PersistentVolumeClaim/crew/logbook"
	kept      = "nothing VolumeInUse"
)

// The table in phase.go, row by row.
func TestPhases(t *testing.T) {
	failed, available, pending, released, bound := phase(corev1.VolumeFailed), phase(corev1.VolumeAvailable), phase(corev1.VolumePending), phase(corev1.VolumeReleased), phase(corev1.VolumeBound)
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want string
	}{
		{"D-30 bound", world(bound), kept},
		{"D-30 bound and deleting, even when the claim is gone: the PV controller says so", world(bound, deleting, proof(ClaimGone)), kept},
		{"C5 released", world(released), reclaimed},
		{"I3 D-30 released, and given to a claim since", world(released, proof(ClaimExists)), kept},
		{"I3 released, and given to a claim that no watch shows", world(released, proof(ClaimUncached)), "wait VolumeInUse"},
		{"I3 failed, and no watch shows the claim", world(failed, proof(ClaimUncached)), "wait VolumeInUse"},
		{"C-80 the policy counts before that", world(released, policy(corev1.PersistentVolumeReclaimRetain), proof(ClaimUncached)), "RemoveFinalizerIfRetained then nothing VolumeKept"},
		{"I3 released, and its owner was not asked for", world(released, proof(NotRead)), asks},
		{"I3 released and deleting, given to a claim since", world(released, deleting, proof(ClaimExists)), kept},
		{"I3 released without finalizer, given to a claim since", world(released, noFinalizer, proof(ClaimExists)), kept},
		{"H-20 released without finalizer gets it first", world(released, noFinalizer), protected},
		{"D-4 released, reference taken away to save the data", world(released, noClaim), kept},
		{"D-4 released, uid taken away to bind the claim again", world(released, reserved), kept},
		{"D-34 released, reference taken away, deleting", world(released, noClaim, deleting, listed), reclaimed},
		{"D-34 released, uid taken away, deleting, no claim has the name", world(released, reserved, deleting, listed, proof(ClaimGone)), reclaimed},
		{"I3 released, uid taken away, deleting, a claim has the name", world(released, reserved, deleting, proof(ClaimExists)), kept},
		{"D-35 U-8 failed, claim gone", world(failed, proof(ClaimGone)), reclaimed},
		{"D-35 U-8 failed, claim gone, no finalizer", world(failed, noFinalizer, proof(ClaimGone)), protected},
		{"I3 failed, claim exists", world(failed, proof(ClaimExists)), kept},
		{"I3 failed, not asked", world(failed, proof(NotRead)), asks},
		{"D-35 failed without a claim is about to be available", world(failed, noClaim), kept},
		{"D-35 failed and reserved for a name", world(failed, reserved, proof(ClaimGone)), kept},
		{"D-34 H-19 deleting, and the reference is empty", world(available, deleting, emptied, proof(NotRead), listed), reclaimed},
		{"D-34 H-19 released, deleting, and the reference has no name", world(released, deleting, unnamed, proof(NotRead)), reclaimed},
		{"D-34 H-19 failed, deleting, and the reference has no namespace", world(failed, deleting, spaceless, proof(NotRead)), reclaimed},
		{"D-4 released, and the reference emptied to save the data", world(released, emptied, proof(NotRead)), kept},
		{"D-4 released, and the reference has a uid and no name", world(released, unnamed, proof(NotRead)), kept},
		{"H-19 failed, deleting, claim gone", world(failed, deleting, proof(ClaimGone)), reclaimed},
		{"H-19 failed, deleting, no claim", world(failed, deleting, noClaim, listed), reclaimed},
		{"H-19 D-34 available, deleting, no claim", world(available, deleting, noClaim, listed), reclaimed},
		{"H-19 pending, deleting, no claim", world(pending, deleting, noClaim, listed), reclaimed},
		{"H-19 no phase yet, deleting, no claim", world(phase(""), deleting, noClaim, listed), reclaimed},
		{"H-19 available, deleting, claim gone", world(available, deleting, proof(ClaimGone)), reclaimed},
		{"I3 available, deleting, the claim is about to be bound", world(available, deleting, proof(ClaimExists)), kept},
		{"I3 available, deleting, not asked", world(available, deleting, proof(NotRead)), asks},
		{"D-34 available, not deleting, the claim is about to be bound", world(available, proof(ClaimGone)), kept},
		{"D-33 H-20 deleting without finalizer: a process that did not delete it says so", world(released, deleting, noFinalizer), "nothing VolumeAbandoned"},
		{"D-33 bound, deleting, without finalizer", world(bound, deleting, noFinalizer), kept},
		{"D-33 available, deleting, without finalizer: never ours to delete", world(available, deleting, noFinalizer, noClaim), kept},
		{"C-80 retain, failed", world(failed, policy(corev1.PersistentVolumeReclaimRetain), proof(ClaimGone)), "RemoveFinalizerIfRetained then nothing VolumeKept"},
		{"C-80 D-34 retain, deleting: never stuck", world(available, deleting, noClaim, policy(corev1.PersistentVolumeReclaimRetain)), "RemoveFinalizerIfRetained then nothing VolumeKept"},
		{"C-80 recycle", world(policy(corev1.PersistentVolumeReclaimRecycle)), "RemoveFinalizerIfRetained then nothing VolumeKept"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(decided(tc.s)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// I3: whatever the combination, no volume is deleted whose claim exists or was not asked for.
func TestNoVolumeIsDeletedUnderAClaim(t *testing.T) {
	for _, p := range []corev1.PersistentVolumePhase{"", corev1.VolumePending, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeFailed} {
		for _, what := range [][]func(*Snapshot){{}, {deleting}, {noFinalizer}, {reserved}, {reserved, deleting}, {static}, {static, deleting}} {
			for _, claim := range []Proof{NotRead, ClaimExists, ClaimUncached} {
				s := world(append(what, phase(p), proof(claim))...)
				deleted := strings.Contains(shape(decided(s)), "DeleteVolume")
				if deleted {
					t.Errorf("phase %q, proof %d, %+v: deleted", p, claim, s.Volume)
				}
				if !deleted && NeedsProof(s.Volume) && shape(decided(world(append(what, phase(p), proof(ClaimGone))...))) == kept {
					t.Errorf("phase %q: proof is asked for and makes no difference", p)
				}
			}
		}
	}
}

func TestProofOf(t *testing.T) {
	claim := func(uid, volume string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
		c.UID = "c"
		if uid != "" {
			c.ObjectMeta = metav1.ObjectMeta{UID: "other"}
		}
		return c
	}
	for _, tc := range []struct {
		row   string
		s     Snapshot
		claim *corev1.PersistentVolumeClaim
		want  Proof
	}{
		{"no claim", world(), nil, ClaimGone},
		{"the claim", world(), claim("", "pv"), ClaimExists},
		{"I3 the claim, which names none yet", world(), claim("", ""), ClaimExists},
		{"released, and the claim has another volume", world(), claim("", "another"), ClaimGone},
		{"in other phases the claim, whatever it is bound to", world(phase(corev1.VolumeFailed)), claim("", "another"), ClaimExists},
		{"C-94 another claim with the name", world(), claim("other", "pv"), ClaimGone},
		{"reserved, and the name is taken by an unbound claim", world(reserved), claim("", ""), ClaimExists},
		{"reserved, and the claim is bound to this volume", world(reserved), claim("", "pv"), ClaimExists},
		{"reserved, and the claim took another volume", world(reserved), claim("", "another"), ClaimGone},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := ProofOf(tc.s.Volume, tc.claim); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// I3: the phase is a proof about the claim that the volume had when it was written, and about no
// other.
func TestIsRelease(t *testing.T) {
	bound, released := phase(corev1.VolumeBound), phase(corev1.VolumeReleased)
	given := func(s *Snapshot) { s.Volume.Spec.ClaimRef.UID = "b" }
	again := func(s *Snapshot) { s.Volume.UID = "again" }
	for _, tc := range []struct {
		row     string
		was, is Snapshot
		want    bool
	}{
		{"released from its claim", world(bound), world(released), true},
		{"its claim went before it was bound", world(phase("")), world(released), true},
		{"bound", world(phase(corev1.VolumePending)), world(bound), false},
		{"was released before", world(released), world(released), false},
		{"given to a claim after it was released", world(released), world(released, given), false},
		{"both in one, as after a watch that was broken", world(bound), world(released, given), false},
		{"given by its claimRef alone", world(released, noClaim), world(released, given), false},
		{"another one of the name", world(bound), world(released, again), false},
		{"reserved for a name", world(bound, reserved), world(released, reserved), false},
	} {
		if got := IsRelease(tc.was.Volume, tc.is.Volume); got != tc.want {
			t.Errorf("%s: %t", tc.row, got)
		}
	}
}

// sameHandle has another volume with the handle, with the claim b, which is gone.
func sameHandle(edits ...func(*Snapshot)) func(*Snapshot) {
	return func(s *Snapshot) { *s = sharing(*s, ReadSameHandle, edits...) }
}

func sharing(s Snapshot, what string, edits ...func(*Snapshot)) Snapshot {
	o := world(append([]func(*Snapshot){func(o *Snapshot) {
		o.Volume.Name, o.Volume.UID = "other", "v"
		if n := len(s.Others()); n > 0 {
			o.Volume.Name = fmt.Sprint("other-", n)
		}
		o.Volume.Spec.ClaimRef.Name, o.Volume.Spec.ClaimRef.UID = "b", "b"
	}, proof(ClaimGone)}, edits...)...)
	all := s.sameHandle()
	all.Volumes = append(all.Volumes, o.Volume)
	claims := s.Read
	s = s.With(s.handleRef(what), all)
	for ref, answer := range claims {
		if ref.What == ReadClaim && ref.Name == "b" {
			s = s.With(ref, answer)
		}
	}
	for ref, answer := range o.Read {
		s = s.With(ref, answer)
	}
	return s
}

func TestSharedWith(t *testing.T) {
	retain := policy(corev1.PersistentVolumeReclaimRetain)
	refused := "refuse VolumeShared"
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want string
	}{
		{"D-37 the other is bound", world(sameHandle(phase(corev1.VolumeBound))), refused},
		{"D-37 the other is available", world(sameHandle(phase(corev1.VolumeAvailable), noClaim)), refused},
		{"D-37 the other is retained", world(sameHandle(retain)), refused},
		{"D-37 the other is retained and deleting: its data may still be used", world(sameHandle(retain, deleting, noFinalizer, phase(corev1.VolumeBound))), refused},
		{"D-37 both are released: neither needs it", world(sameHandle()), reclaimed},
		{"D-37 D-35 both are failed: neither needs it", world(phase(corev1.VolumeFailed), proof(ClaimGone), sameHandle(phase(corev1.VolumeFailed))), reclaimed},
		{"D-37 I3 the other is released, and given to a claim since", world(sameHandle(proof(ClaimExists))), refused},
		{"D-37 I3 the other is released, and not asked", world(sameHandle(proof(NotRead))), "read PersistentVolumeClaim/crew/b"},
		{"D-37 the other was dealt with", world(sameHandle(deleting, noFinalizer)), reclaimed},
		{"D-37 one of two needs it", world(sameHandle(), sameHandle(phase(corev1.VolumeBound))), refused},
		{"D-37 retained: our finalizer is removed", world(retain, sameHandle(phase(corev1.VolumeBound))), "RemoveFinalizerIfRetained then nothing VolumeKept"},
		{"D-37 memory may be older than another", world(late, proof(ClaimGone)), looks},
		{"D-37 so it may where the others that it has do not need the volume", world(late, proof(ClaimGone), sameHandle()), looks},
		{"D-37 before anything is written", world(late, proof(ClaimGone), noFinalizer), looks},
		{"D-37 where it stays, nothing is asked", world(late, proof(ClaimGone), sameHandle(phase(corev1.VolumeBound))), refused},
		{"D-16 D-37 nor where it is attached", world(late, proof(ClaimGone), attached), "wait VolumeAttached"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			v := decided(tc.s)
			if got := shape(v); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if text := v.Because().Text(); tc.want == refused && (!strings.Contains(text, `"other`) || !strings.Contains(text, `"h"`)) {
				t.Errorf("%q does not name the other volume and the handle", text)
			}
		})
	}
}

// D-37: the list of all volumes is read before the volume, and what was read before it is asked for
// again.
func TestAfterTheList(t *testing.T) {
	before := world(late, proof(ClaimGone), attached, with(ReadClass, "fast", Answer{}))
	after := before.With(before.handleRef(ReadAllVolumes), Answer{})
	if got := shape(decided(after)); got != asks || len(after.Read) != 2 {
		t.Errorf("the claim is taken as it was: %s; read %v", got, after.Read)
	}
	for _, tc := range []struct {
		row   string
		edits []func(*Snapshot)
		want  string
	}{
		{"D-37 no other volume has the handle", nil, reclaimed},
		{"H-20 no finalizer", []func(*Snapshot){noFinalizer}, protected},
		{"I3 its claim is there", []func(*Snapshot){proof(ClaimExists)}, kept},
		{"D-16 attached", []func(*Snapshot){attached}, "wait VolumeAttached"},
		{"D-31 retained meanwhile", []func(*Snapshot){policy(corev1.PersistentVolumeReclaimRetain)}, "RemoveFinalizerIfRetained then nothing VolumeKept"},
	} {
		s := world(late)
		s = s.With(s.handleRef(ReadAllVolumes), Answer{})
		for _, edit := range append([]func(*Snapshot){proof(ClaimGone)}, tc.edits...) {
			edit(&s)
		}
		if got := shape(decided(s)); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.row, got, tc.want)
		}
	}
	for want, edits := range map[string][]func(*Snapshot){reclaimed: nil, "refuse VolumeShared": {phase(corev1.VolumeBound)}} {
		s := sharing(world(late), ReadAllVolumes, edits...)
		proof(ClaimGone)(&s)
		if got := shape(decided(s)); got != want {
			t.Errorf("with another: got %s, want %s", got, want)
		}
	}
}

// D-37: the volume is read after the list, in which an administrator may have retained it.
func TestVolumeIsReadAfterTheList(t *testing.T) {
	want := []verdict.Ref{{What: ReadAllVolumes, Name: "h"}, {What: ReadVolume, Name: "pv"}}
	for name, v := range map[string]Verdict{"not observed": decided(world(late, proof(ClaimGone))), "a new one": AfterNew(world())} {
		if asks, ok := v.(verdict.Read[Action]); !ok || !slices.Equal(asks.Refs, want) {
			t.Errorf("%s: %s", name, shape(v))
		}
	}
}
