package reclaim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A volume that rests is not even looked at, so nothing may be left to do for it in any world; and each of the others is woken up for
// something.
func TestRests(t *testing.T) {
	for _, p := range []corev1.PersistentVolumePhase{"", corev1.VolumePending, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeFailed} {
		for _, what := range [][]func(*Snapshot){{}, {deleting}, {noFinalizer}, {noFinalizer, deleting}, {noClaim}, {noClaim, deleting}, {static}, {static, deleting}, {policy(corev1.PersistentVolumeReclaimRetain)}} {
			var decided []string
			idles, pv := true, world(append(what, phase(p))...).Volume
			for _, claim := range []Proof{NotAsked, ClaimExists, ClaimGone} {
				got := shape(Decide(world(append(what, phase(p), proof(claim))...)))
				decided = append(decided, got)
				idles = idles && got == "nothing VolumeInUse"
			}
			if Rests(pv) != idles {
				t.Errorf("phase %q, %+v: rests is %t, and is decided %q", p, pv.ObjectMeta, Rests(pv), decided)
			}
		}
	}
}
