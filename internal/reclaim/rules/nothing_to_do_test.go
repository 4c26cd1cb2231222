package reclaim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A volume with nothing to do is not enqueued, except to report it as abandoned: no snapshot may lead
// to an action for it. For each other volume some snapshot does.
func TestHasNothingToDo(t *testing.T) {
	for _, p := range []corev1.PersistentVolumePhase{"", corev1.VolumePending, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeFailed} {
		for _, what := range [][]func(*Snapshot){{}, {deleting}, {noFinalizer}, {noFinalizer, deleting}, {noClaim}, {noClaim, deleting}, {static}, {static, deleting}, {policy(corev1.PersistentVolumeReclaimRetain)}} {
			var verdicts []string
			idles, pv := true, world(append(what, phase(p))...).Volume
			for _, claim := range []Proof{NotRead, ClaimExists, ClaimGone} {
				got := shape(decided(world(append(what, phase(p), proof(claim))...)))
				verdicts = append(verdicts, got)
				idles = idles && (got == "nothing VolumeInUse" || got == "nothing VolumeAbandoned")
			}
			if HasNothingToDo(pv) != idles {
				t.Errorf("phase %q, %+v: rests is %t, and is decided %q", p, pv.ObjectMeta, HasNothingToDo(pv), verdicts)
			}
		}
	}
}

// A volume is as it was seen for a moment after its release, and not in any other phase.
func TestIsFresh(t *testing.T) {
	now := time.Unix(10_000, 0)
	for _, tc := range []struct {
		phase corev1.PersistentVolumePhase
		ago   time.Duration
		want  bool
	}{
		{corev1.VolumeReleased, 0, true},
		{corev1.VolumeReleased, 9 * time.Second, true},
		{corev1.VolumeReleased, 10 * time.Second, false},
		{corev1.VolumeReleased, -time.Hour, false}, // of two clocks one is wrong
		{corev1.VolumeFailed, 0, false},
		{corev1.VolumeAvailable, 0, false},
	} {
		pv := &corev1.PersistentVolume{Status: corev1.PersistentVolumeStatus{Phase: tc.phase, LastPhaseTransitionTime: &metav1.Time{Time: now.Add(-tc.ago)}}}
		if got := IsFresh(pv, now); got != tc.want {
			t.Errorf("%s %s ago: %t", tc.phase, tc.ago, got)
		}
	}
	if IsFresh(&corev1.PersistentVolume{Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased}}, now) {
		t.Error("fresh, though the time of its release is unknown")
	}
}
