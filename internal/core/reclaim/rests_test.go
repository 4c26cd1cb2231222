package reclaim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A volume that rests is not even looked at, so nothing may be left to do for it in any world.
func TestRests(t *testing.T) {
	resting := 0
	for _, p := range []corev1.PersistentVolumePhase{"", corev1.VolumePending, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeFailed} {
		for _, what := range [][]func(*Snapshot){{}, {deleting}, {noFinalizer}, {noClaim}, {static}, {static, deleting}, {policy(corev1.PersistentVolumeReclaimRetain)}} {
			for _, claim := range []Proof{NotAsked, ClaimExists, ClaimGone} {
				s := world(append(what, phase(p), proof(claim))...)
				if !Rests(s.Volume) {
					continue
				}
				resting++
				if got := shape(Decide(s)); got != "nothing VolumeInUse" {
					t.Errorf("phase %q, proof %d, %+v: %s", p, claim, s.Volume, got)
				}
			}
		}
	}
	if resting == 0 {
		t.Error("no volume rests")
	}
}
