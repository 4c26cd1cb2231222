package binding

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// 1.12, 1.13: annotations about migration can wait, unless a provisioner waits for them or another write is due.
func TestDeferMigration(t *testing.T) {
	migration := []Action{SetMigration{}}
	bound := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	pending := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	terminating := bound.DeepCopy()
	terminating.DeletionTimestamp = new(metav1.Unix(1, 0))
	for name, tc := range map[string]struct {
		claim   *corev1.PersistentVolumeClaim
		actions []Action
		want    bool
	}{
		"bound":              {bound, migration, true},
		"a loose volume":     {nil, migration, true},
		"pending":            {pending, migration, false},
		"terminating":        {terminating, migration, false},
		"with another write": {bound, append([]Action{SetVolumePhase{}}, migration...), false},
	} {
		if got := deferMigration(tc.claim, do{Actions: tc.actions}).(do); got.Deferrable != tc.want {
			t.Errorf("%s: deferrable %t", name, got.Deferrable)
		}
	}
}
