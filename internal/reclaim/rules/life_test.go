package reclaim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// C-103, D-30, U-6: a PersistentVolume that is deleted before its claim keeps our finalizer, and
// with it its volume, until the claim is gone; then both go.
func TestVolumeDeletedBeforeItsClaim(t *testing.T) {
	pv := world(phase(corev1.VolumeBound), deleting)
	for _, claim := range []Proof{NotRead, ClaimExists, ClaimGone} {
		if got := shape(decided(world(phase(corev1.VolumeBound), deleting, proof(claim)))); got != "nothing VolumeInUse" {
			t.Errorf("C-103 before it is released: %s", got)
		}
	}
	phase(corev1.VolumeReleased)(&pv)
	v, ok := decided(pv).(do)
	if !ok {
		t.Fatalf("C-103 when it is gone: %s", shape(decided(pv)))
	}
	if _, first := v.Actions[0].(DeleteVolume); !first {
		t.Errorf("C-103: %s", shape(v))
	}
}

// D-19: of the finalizers ours only, and not before the volume. The object goes last: any process
// that has a finalizer there has it to himself from then on, and no patch of ours crosses his write
// (1.10).
func TestObjectIsDeletedLast(t *testing.T) {
	v, ok := decided(world()).(do)
	if !ok || len(v.Actions) != 3 {
		t.Fatalf("D-19: %s", shape(decided(world())))
	}
	_, volume := v.Actions[0].(DeleteVolume)
	drop, second := v.Actions[1].(RemoveFinalizers)
	_, last := v.Actions[2].(DeleteObject)
	if !volume || !second || !last || len(drop.Names) != 1 || drop.Names[0] != names.FinalizerVolume {
		t.Errorf("D-19: %s", shape(v))
	}
}

// D-32: a retained volume is deleted when its policy changes to Delete. Before that it gets the
// finalizer again that was removed when it was released.
func TestPolicyChangesAfterRelease(t *testing.T) {
	kept := world(policy(corev1.PersistentVolumeReclaimRetain))
	if got := shape(decided(kept)); got != "RemoveFinalizerIfRetained then nothing VolumeKept" {
		t.Errorf("D-31: %s", got)
	}
	noFinalizer(&kept)
	policy(corev1.PersistentVolumeReclaimDelete)(&kept)
	v, ok := decided(kept).(do)
	if !ok || len(v.Actions) != 4 {
		t.Fatalf("D-32: %s", shape(decided(kept)))
	}
	if _, first := v.Actions[0].(AddFinalizer); !first {
		t.Errorf("D-32: %s", shape(v))
	}
}

// D-36: a volume whose driver is not ours keeps its finalizer, whatever state it is in: no other
// process can delete what is behind it.
func TestVolumesOfAbsentDrivers(t *testing.T) {
	for _, by := range []func(*Snapshot){
		func(s *Snapshot) { s.Volume.Annotations[names.AnnProvisionedBy] = "removed.csi" },
		func(s *Snapshot) { s.Volume.Annotations, s.Volume.Spec.CSI.Driver = nil, "removed.csi" },
	} {
		for _, p := range []corev1.PersistentVolumePhase{corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeFailed} {
			for _, state := range []func(*Snapshot){deleting, noClaim, policy(corev1.PersistentVolumeReclaimRetain)} {
				if got := shape(decided(world(by, phase(p), state))); got != "nothing VolumeNotOurs" {
					t.Errorf("D-36 %s: %s", p, got)
				}
			}
		}
	}
	if got := shape(decided(Snapshot{Name: "pv", Volume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, Driver: Driver{Name: driver}})); got != "nothing VolumeNotOurs" {
		t.Errorf("D-36 without a driver of ours: %s", got)
	}
}
