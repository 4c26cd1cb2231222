package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each finalizer of a populator on a claim in deletion is explained by the prime claim, not the first one only.
func TestFinalizersOfTwoPopulators(t *testing.T) {
	now := metav1.NewTime(time.Unix(2_000_000_000, 0))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "disk", UID: "u", DeletionTimestamp: &now,
		Finalizers: []string{"a.example.com/populate-target-protection", "b.example.com/populate-target-protection"},
	}}
	prime := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "populators", Name: "prime-u", UID: "p", DeletionTimestamp: &now, Finalizers: []string{"x"},
	}}
	c := (&Cluster{Now: now.Time, Claims: []*corev1.PersistentVolumeClaim{claim, prime}}).Prepare()
	findings := c.claimDeletion(claim)
	if len(findings) != 2 {
		t.Fatalf("%d findings, want 2", len(findings))
	}
	for i, f := range findings {
		if f.Cause != claimRef(prime) {
			t.Errorf("finalizer %s: cause %s, want the prime claim", claim.Finalizers[i], f.Cause)
		}
	}
}
