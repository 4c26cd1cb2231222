package reclaim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// I3: a volume is deleted by a cached object only right after this process has observed its release.
func TestCachedVolumeDecides(t *testing.T) {
	releasedAgo := func(ago time.Duration) func(*Snapshot) {
		return func(s *Snapshot) { s.Volume.Status.LastPhaseTransitionTime = &metav1.Time{Time: s.now.Add(-ago)} }
	}
	fresh := func(s *Snapshot) { s.Known = Known{} }
	coming := func(s *Snapshot) { s.Known = Known{IsComing: true} }
	const reads = "read PersistentVolume/pv"
	for name, tc := range map[string]struct {
		edits []func(*Snapshot)
		want  string
	}{
		"released right now, and observed":     {[]func(*Snapshot){releasedAgo(0)}, reclaimed},
		"released right now, and not observed": {[]func(*Snapshot){fresh}, reads},
		"its event is still to come":           {[]func(*Snapshot){coming}, kept},
		"its event came before the live read":  {[]func(*Snapshot){coming, live}, asks},
		"released a while ago":                 {[]func(*Snapshot){releasedAgo(time.Minute)}, reads},
		"the API server does not say when":     {[]func(*Snapshot){func(s *Snapshot) { s.Volume.Status.LastPhaseTransitionTime = nil }}, reads},
		"given to another claim since":         {[]func(*Snapshot){func(s *Snapshot) { s.Volume.Spec.ClaimRef.UID = "b" }}, reads},
		"a failed deletion":                    {[]func(*Snapshot){phase(corev1.VolumeFailed)}, reads},
		"in use":                               {[]func(*Snapshot){phase(corev1.VolumeBound), fresh}, kept},
		"of another driver":                    {[]func(*Snapshot){func(s *Snapshot) { s.Driver.Name = "other.example" }}, "nothing VolumeNotOurs"},
		"in-tree, and not annotated":           {[]func(*Snapshot){static, func(s *Snapshot) { s.InTree = true }}, "nothing VolumeNotOurs"},
	} {
		if got := shape(decided(world(tc.edits...))); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// D-33: a volume that this process has reclaimed is not abandoned.
func TestReclaimedIsNotAbandoned(t *testing.T) {
	for known, want := range map[Known]string{{Reclaimed: true}: "nothing VolumeGone", {}: "nothing VolumeAbandoned"} {
		if got := shape(decided(world(deleting, noFinalizer, func(s *Snapshot) { s.Known = known }))); got != want {
			t.Errorf("%+v: %s, want %s", known, got, want)
		}
	}
	// H-18: a previous leader added the finalizer again.
	if got := shape(decided(world(deleting, func(s *Snapshot) { s.Known.Reclaimed = true }))); got != reclaimed {
		t.Errorf("with the finalizer: %s", got)
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
