package protection

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/purser-csi/purser/internal/kube"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/reconcile"
)

// cachedPods are the pods that name the claim of a test.
type cachedPods struct {
	client.Reader
	pods []corev1.Pod
	err  error
}

// List implements client.Reader.
func (c cachedPods) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*corev1.PodList).Items = c.pods
	return c.err
}

// 3.1: the binder writes the condition Unused with the phase Bound, and a pod can come between its
// read and its write. So a claim is looked at again whenever it is bound, and enqueued if the cached
// pods say something else than its condition.
func TestUnusedClaimChanges(t *testing.T) {
	claim := func(phase corev1.PersistentVolumeClaimPhase, conditions ...corev1.PersistentVolumeClaimCondition) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: phase, Conditions: conditions},
		}
	}
	user := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	user.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
	}}}
	none, used := cachedPods{}, cachedPods{pods: []corev1.Pod{user}}
	unread := cachedPods{err: errors.New("the cache does not answer")}
	unused, inUse := protection.UnusedCondition(nil), protection.UnusedCondition([]string{"p"})
	for name, tc := range map[string]struct {
		old, now *corev1.PersistentVolumeClaim // nil: it does not exist
		pods     cachedPods
		want     int
	}{
		"pending":                                   {nil, claim(corev1.ClaimPending), used, 0},
		"bound with the condition":                  {claim(corev1.ClaimPending), claim(corev1.ClaimBound, unused), none, 0},
		"bound unused, and a pod came meanwhile":    {claim(corev1.ClaimPending), claim(corev1.ClaimBound, unused), used, 1},
		"bound without the condition":               {claim(corev1.ClaimPending), claim(corev1.ClaimBound), none, 1},
		"found unused when we start":                {nil, claim(corev1.ClaimBound, unused), none, 0},
		"found unused with a pod when we start":     {nil, claim(corev1.ClaimBound, unused), used, 1},
		"found in use when we start":                {nil, claim(corev1.ClaimBound, inUse), used, 0},
		"found in use without a pod when we start":  {nil, claim(corev1.ClaimBound, inUse), none, 1},
		"found without the condition when we start": {nil, claim(corev1.ClaimBound), none, 1},
		"found when the pods cannot be read":        {nil, claim(corev1.ClaimBound, unused), unread, 1},
		"another change of a bound one":             {claim(corev1.ClaimBound, unused), claim(corev1.ClaimBound, unused), used, 0},
		"another writer's condition, which is old":  {claim(corev1.ClaimBound, inUse), claim(corev1.ClaimBound, unused), used, 1},
		"another writer's condition":                {claim(corev1.ClaimBound, inUse), claim(corev1.ClaimBound, unused), none, 0},
		"the condition is not there":                {claim(corev1.ClaimBound), claim(corev1.ClaimBound), none, 1},
		"deleted":                                   {claim(corev1.ClaimBound, unused), nil, used, 0},
	} {
		q := reconcile.NewQueue[Key](NameUnused, nil)
		handler := NewUnused(Config{Cached: kube.NewOverlay(tc.pods, clock.RealClock{})}).claimChanges()
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
