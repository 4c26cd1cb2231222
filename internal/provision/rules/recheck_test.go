package provision

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// H-43: what has no watch is read at intervals, less often for a claim that waits for long.
func TestRecheckGrowsWithAge(t *testing.T) {
	now := time.Unix(100_000, 0)
	for age, want := range map[time.Duration]time.Duration{
		-time.Minute: sourceRecheck, 0: sourceRecheck, 100 * time.Second: sourceRecheck, 10 * time.Minute: time.Minute,
		time.Hour: longestRecheck, 1000 * time.Hour: longestRecheck,
	} {
		s := Snapshot{now: now, Claim: &corev1.PersistentVolumeClaim{}}
		s.Claim.CreationTimestamp = metav1.NewTime(now.Add(-age))
		if got := stretched(sourceRecheck, s); got != want {
			t.Errorf("a claim of %s is read after %s, want %s", age, got, want)
		}
	}
}
