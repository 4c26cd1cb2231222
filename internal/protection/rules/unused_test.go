package protection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/verdict"
)

// 3.1: the condition Unused of kube-controller-manager 1.37.
func TestDecideUnused(t *testing.T) {
	bound := corev1.ClaimBound
	now := metav1.Now()
	volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "u"}}}
	for name, tc := range map[string]struct {
		phase     corev1.PersistentVolumeClaimPhase
		deleted   *metav1.Time
		condition corev1.ConditionStatus
		users     []string
		want      corev1.ConditionStatus // that is written; empty for none
	}{
		"bound without a pod":              {bound, nil, "", nil, corev1.ConditionTrue},
		"bound with a pod":                 {bound, nil, "", []string{"p"}, corev1.ConditionFalse},
		"a pod came":                       {bound, nil, corev1.ConditionTrue, []string{"p"}, corev1.ConditionFalse},
		"the last pod went":                {bound, nil, corev1.ConditionFalse, nil, corev1.ConditionTrue},
		"says so already":                  {bound, nil, corev1.ConditionTrue, nil, ""},
		"another pod":                      {bound, nil, corev1.ConditionFalse, []string{"p", "q"}, ""},
		"pending, which the binder writes": {corev1.ClaimPending, nil, "", nil, ""},
		"being deleted":                    {bound, &now, "", nil, ""},
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "u", DeletionTimestamp: tc.deleted}, Status: corev1.PersistentVolumeClaimStatus{Phase: tc.phase}}
		got := corev1.ConditionStatus("")
		if tc.condition != "" {
			claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimUnused, Status: tc.condition}}
		}
		claim.Namespace, claim.Name = "ns", "c"
		var pods []corev1.Pod
		for _, name := range tc.users {
			pods = append(pods, *newer(name))
		}
		if todo, ok := DecideUnused(Usage{Object: claim, Pods: pods, Volume: volume}, now.Time).(verdict.Do[Action]); ok {
			got = todo.Actions[0].(SetUnused).Condition.Status
		}
		if got != tc.want {
			t.Errorf("%s: writes %q, want %q", name, got, tc.want)
		}
	}
	if _, ok := DecideUnused(Usage{}, now.Time).(verdict.Nothing[Action]); !ok {
		t.Error("something is done for a claim that does not exist")
	}
	lost := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "v"}, Status: corev1.PersistentVolumeClaimStatus{Phase: bound}}
	for _, other := range []*corev1.PersistentVolume{nil, {}, volume} {
		if _, ok := DecideUnused(Usage{Object: lost, Volume: other}, now.Time).(verdict.Wait[Action]); !ok {
			t.Errorf("a condition is written for a claim that is about to be lost, volume %v", other)
		}
	}
}

func TestRefers(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"without a node":    {func(*corev1.Pod) {}, true},
		"another namespace": {func(p *corev1.Pod) { p.Namespace = "m" }, false},
		"another claim":     {func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "d" }, false},
		"finished":          {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, false},
		"deleted by force": {func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), ptr.To[int64](0)
		}, false},
		"still being stopped": {func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), ptr.To[int64](30)
		}, true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
		}}}}
		tc.change(pod)
		if got := Refers(pod, claim); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
