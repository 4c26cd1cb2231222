package protection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/reconcile"
)

// 3.1: the binder writes the condition Unused with the phase Bound, and a pod can come between its
// read and its write: the claim is enqueued nevertheless.
func TestUnusedClaimChanges(t *testing.T) {
	claim := func(phase corev1.PersistentVolumeClaimPhase, conditions ...corev1.PersistentVolumeClaimCondition) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: phase, Conditions: conditions},
		}
	}
	unused := protection.UnusedCondition(nil)
	for name, tc := range map[string]struct {
		old, now *corev1.PersistentVolumeClaim // nil: it does not exist
		want     int
	}{
		"pending":                       {nil, claim(corev1.ClaimPending), 0},
		"bound with the condition":      {claim(corev1.ClaimPending), claim(corev1.ClaimBound, unused), 1},
		"bound without the condition":   {claim(corev1.ClaimPending), claim(corev1.ClaimBound), 1},
		"found bound when we start":     {nil, claim(corev1.ClaimBound, unused), 1},
		"another change of a bound one": {claim(corev1.ClaimBound, unused), claim(corev1.ClaimBound, unused), 0},
		"the condition is not there":    {claim(corev1.ClaimBound), claim(corev1.ClaimBound), 1},
		"deleted":                       {claim(corev1.ClaimBound, unused), nil, 0},
	} {
		q := reconcile.NewQueue[Key](NameUnused, nil)
		handler := NewUnused(Config{}).claimChanges()
		switch {
		case tc.old == nil:
			handler.Create(t.Context(), event.TypedCreateEvent[*corev1.PersistentVolumeClaim]{Object: tc.now}, q)
		case tc.now == nil:
			handler.Delete(t.Context(), event.TypedDeleteEvent[*corev1.PersistentVolumeClaim]{Object: tc.old}, q)
		default:
			handler.Update(t.Context(), event.TypedUpdateEvent[*corev1.PersistentVolumeClaim]{ObjectOld: tc.old, ObjectNew: tc.now}, q)
		}
		if q.Len() != tc.want {
			t.Errorf("%s: %d keys, want %d", name, q.Len(), tc.want)
		}
		q.ShutDown()
	}
}
