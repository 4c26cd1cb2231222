package reclaim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// I3: a volume is deleted by a cached object only right after this process has seen its release.
func TestViewOf(t *testing.T) {
	now := time.Unix(10_000, 0)
	releasedAgo := func(ago time.Duration) func(*Snapshot) {
		return func(s *Snapshot) { s.Volume.Status.LastPhaseTransitionTime = &metav1.Time{Time: now.Add(-ago)} }
	}
	for name, tc := range map[string]struct {
		edits      []func(*Snapshot)
		driver     string
		sawRelease bool
		want       View
	}{
		"released right now, and seen":     {[]func(*Snapshot){releasedAgo(0)}, driver, true, ViewIsFresh},
		"released right now, and not seen": {[]func(*Snapshot){releasedAgo(0)}, driver, false, ViewNeedsLive},
		"released a while ago":             {[]func(*Snapshot){releasedAgo(time.Minute)}, driver, true, ViewNeedsLive},
		"the API server does not say when": {nil, driver, true, ViewNeedsLive},
		"a failed deletion":                {[]func(*Snapshot){phase(corev1.VolumeFailed), releasedAgo(0)}, driver, true, ViewNeedsLive},
		"in use":                           {[]func(*Snapshot){phase(corev1.VolumeBound), releasedAgo(0)}, driver, false, ViewSuffices},
		"of another driver":                {[]func(*Snapshot){releasedAgo(0)}, "other.example", true, ViewSuffices},
	} {
		pv := world(tc.edits...).Volume
		if got := ViewOf(pv, tc.driver, tc.sawRelease, now); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// I3: a claim that the API server has and the cache does not show is one to wait for.
func TestIsClaimUncached(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "c"}}
	for name, tc := range map[string]struct {
		ref    corev1.ObjectReference
		cached *corev1.PersistentVolumeClaim
		want   bool
	}{
		"shown":                         {corev1.ObjectReference{UID: "c"}, claim, false},
		"not shown":                     {corev1.ObjectReference{UID: "c"}, nil, true},
		"another of the name is shown":  {corev1.ObjectReference{UID: "d"}, claim, true},
		"the reference has no uid":      {corev1.ObjectReference{}, claim, false},
		"no uid, and no claim is shown": {corev1.ObjectReference{}, nil, true},
	} {
		if got := IsClaimUncached(&tc.ref, tc.cached); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
