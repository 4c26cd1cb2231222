package provision

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	intent "github.com/purser-csi/purser/internal/journal/rules"
)

// H-1, H-5: when a cached claim decides, and when the API server is read.
func TestNeedsLiveClaim(t *testing.T) {
	unbound, bound := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
	entry := &intent.Entry{}
	for name, tc := range map[string]struct {
		cached *corev1.PersistentVolumeClaim
		entry  *intent.Entry
		want   bool
	}{
		"no entry":                            {unbound, nil, false},
		"no entry, the claim is gone":         {nil, nil, false},
		"no entry, the claim is bound":        {bound, nil, false},
		"an entry, the claim is unbound":      {unbound, entry, false},
		"an entry, the cache lacks the claim": {nil, entry, true},
		"an entry, the claim is bound":        {bound, entry, true},
	} {
		if got := NeedsLiveClaim(tc.cached, tc.entry); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// H-1, H-5: when a cached PersistentVolume, or its absence, decides.
func TestNeedsLiveVolume(t *testing.T) {
	pv, entry := &corev1.PersistentVolume{}, &intent.Entry{}
	for name, tc := range map[string]struct {
		cached        *corev1.PersistentVolume
		entry         *intent.Entry
		provisioned   bool
		volume, claim bool // are read live
	}{
		"a new claim":                            {nil, nil, false, false, false},
		"the cache has the volume":               {pv, nil, true, false, false},
		"the cache lacks what we provisioned":    {nil, nil, true, true, true},
		"an entry, the cache has the volume":     {pv, entry, false, true, false},
		"an entry, the cache lacks the volume":   {nil, entry, false, true, false},
		"an entry, and we provisioned it before": {nil, entry, true, true, true},
	} {
		if got := NeedsLiveVolume(tc.cached, tc.entry, tc.provisioned); got != tc.volume {
			t.Errorf("%s: volume %v, want %v", name, got, tc.volume)
		}
		if got := NeedsLiveClaimWithoutVolume(tc.cached, tc.provisioned); got != tc.claim {
			t.Errorf("%s: claim %v, want %v", name, got, tc.claim)
		}
	}
}
