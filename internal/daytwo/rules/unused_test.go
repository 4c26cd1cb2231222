package daytwo

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func unusedSince(status corev1.ConditionStatus, since time.Duration) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
			Type: corev1.PersistentVolumeClaimUnused, Status: status,
			LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}}
	}
}

// The condition says since when; without it the pods say whether, and nothing is claimed about when.
func TestFindUnused(t *testing.T) {
	set := appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	in := UnusedInput{
		Now: now, Sets: []appsv1.StatefulSet{set},
		Claims: []corev1.PersistentVolumeClaim{
			claimOf("recent", "1Gi", unusedSince(corev1.ConditionTrue, 5*day)),
			claimOf("data-db-3", "1Gi", unusedSince(corev1.ConditionTrue, 31*day)),
			claimOf("oldest", "2Gi", unusedSince(corev1.ConditionTrue, 400*day)),
			claimOf("used", "1Gi", unusedSince(corev1.ConditionFalse, 400*day)),
			claimOf("undated", "1Gi", nil), claimOf("undated-used", "1Gi", nil),
			claimOf("unclear", "1Gi", unusedSince(corev1.ConditionUnknown, 400*day)),
			claimOf("pending", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }),
		},
		Pods: []corev1.Pod{podOf("p", "", "undated-used")},
	}
	r := FindUnused(in, 30)
	names := func(claims []UnusedClaim) string {
		var all []string
		for _, c := range claims {
			all = append(all, c.Claim)
		}
		return strings.Join(all, " ")
	}
	if got := names(r.Unused); got != "oldest data-db-3" {
		t.Errorf("unused: %s", got)
	}
	if got := names(r.Undated); got != "unclear undated" && got != "undated unclear" {
		t.Errorf("undated: %s", got)
	}
	if r.Recent != 1 || r.InUse != 2 || r.Unknown != 0 || r.ExitCode() != ExitFound {
		t.Errorf("%+v", r)
	}
	if of := r.Unused[1].For; len(of) != 1 || of[0] != "statefulset/db" {
		t.Errorf("would be used by %v", of)
	}
	page := &Page{}
	r.Print(page)
	for _, text := range []string{
		"2 claims unused for 30 days or more, 3Gi in all.", "since when is unknown", "400", "statefulset/db",
	} {
		if !strings.Contains(page.String(), text) {
			t.Errorf("no %q in\n%s", text, page)
		}
	}
	in.PodsUnread = true
	if r = FindUnused(in, 500); r.Unknown != 3 || len(r.Undated) != 0 || r.ExitCode() != ExitUnknown {
		t.Errorf("without pods: %+v", r)
	}
	if r = FindUnused(UnusedInput{Now: now}, 30); r.ExitCode() != 0 {
		t.Errorf("without claims: %+v", r)
	}
}
