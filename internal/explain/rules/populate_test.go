package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// A warning that is older than the prime claim has passed: the source was created since, and the populator is
// silent.
func TestWarningBeforeThePrimeClaim(t *testing.T) {
	now, group := time.Unix(2_000_000_000, 0), "populator.purser"
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "disk", UID: "u", CreationTimestamp: ago(time.Hour),
			Finalizers: []string{"populator.purser" + finalizerOfPopulators},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			DataSourceRef: &corev1.TypedObjectReference{APIGroup: &group, Kind: "HTTPSource", Name: "debian"},
		},
	}
	prime := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "populators", Name: "prime-u", UID: "p", CreationTimestamp: ago(30 * time.Minute),
		},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "populators", Name: "prime-u", UID: "p"},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	for _, tc := range []struct {
		event    time.Duration
		hasPrime bool
		want     verdict.Reason
	}{
		{30*time.Minute + time.Second, true, verdict.PopulatorSilent},
		{29 * time.Minute, true, verdict.PopulatorSourceMissing},
		{31 * time.Minute, false, verdict.PopulatorSourceMissing},
	} {
		c := &Cluster{
			Now: now, Claims: []*corev1.PersistentVolumeClaim{claim}, Volumes: []*corev1.PersistentVolume{volume},
			Events: []*corev1.Event{{
				ObjectMeta: metav1.ObjectMeta{
					Annotations: map[string]string{names.AnnReason: string(verdict.PopulatorSourceMissing)},
				},
				InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "disk"},
				Reason:         "PopulatorDataSourceNotFound", LastTimestamp: ago(tc.event),
				Message: "HTTPSource shop/debian does not exist",
			}},
		}
		if tc.hasPrime {
			c.Claims = append(c.Claims, prime)
		}
		f := findingAbout(claimRef(claim), &claim.CreationTimestamp.Time)
		findings := c.Prepare().populating(claim, f)
		if len(findings) != 1 || findings[0].Reason != tc.want {
			t.Errorf("event %s ago, prime claim %t: %v, want %s", tc.event, tc.hasPrime, findings, tc.want)
		}
	}
}
