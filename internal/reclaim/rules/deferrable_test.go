package reclaim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// D-3, D-31: our finalizer on a volume that is not being deleted can wait, to be added and to be removed.
func TestDeferrable(t *testing.T) {
	retain := policy(corev1.PersistentVolumeReclaimRetain)
	for name, tc := range map[string]struct {
		s    Snapshot
		want bool
	}{
		"bound without the finalizer":             {world(phase(corev1.VolumeBound), noFinalizer), true},
		"retained with it":                        {world(retain, phase(corev1.VolumeBound)), true},
		"retained, and its object is terminating": {world(retain, deleting, phase(corev1.VolumeBound)), false},
	} {
		todo, ok := Decide(tc.s, time.Unix(1000, 0)).(do)
		if !ok || todo.Deferrable != tc.want {
			t.Errorf("%s: deferrable %t", name, todo.Deferrable)
		}
	}
}
