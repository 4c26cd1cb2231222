package protection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// 3.1, 3.2: what a first start finds missing on every object may be written later. A change of use, and the
// protection of a claim that a pod uses, may not.
func TestDeferrable(t *testing.T) {
	usage := func(has corev1.ConditionStatus, pods ...corev1.Pod) Verdict {
		claim := claim(alive).Object
		claim.Status.Phase = corev1.ClaimBound
		if has != "" {
			claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
				{Type: corev1.PersistentVolumeClaimUnused, Status: has},
			}
		}
		pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: claim.UID}}}
		return DecideUnused(Usage{Object: claim, Pods: pods, Volume: pv}, deletedAt)
	}
	bare := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}
	for name, tc := range map[string]struct {
		verdict Verdict
		want    bool
	}{
		"first condition, no pod":              {usage(""), true},
		"first condition, a pod":               {usage("", *newer("p")), true},
		"a pod came":                           {usage(corev1.ConditionTrue, *newer("p")), false},
		"the last pod went":                    {usage(corev1.ConditionFalse), false},
		"claim without the finalizer":          {DecideClaim(claim(alive, unheld), deletedAt), true},
		"claim without it that a pod uses":     {DecideClaim(claim(alive, unheld, remembers), deletedAt), false},
		"volume without the finalizer":         {DecideVolume(Volume{Object: bare}, deletedAt), true},
		"claim that is deleted and not in use": {DecideClaim(claim(answered), deletedAt), false},
	} {
		todo, ok := tc.verdict.(verdict.Do[Action])
		if !ok || todo.Deferrable != tc.want {
			t.Errorf("%s: %s, deferrable %t", name, shape(tc.verdict), todo.Deferrable)
		}
	}
}
