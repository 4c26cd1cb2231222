package reclaim

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// D-37, 8.14: a PersistentVolume that is released too needs the data if an annotation keeps it.
func TestSharedWithOneThatIsKeptForReuse(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*Snapshot)
		want string
	}{
		{"reclaimed itself", func(*Snapshot) {}, reclaimed},
		{"kept", reuse(names.ReuseAny), "refuse VolumeShared"},
		{"kept by an annotation that cannot be read", reuse("bogus"), "refuse VolumeShared"},
		{"abandoned", func(s *Snapshot) { reuse(names.ReuseAny)(s); deleting(s); noFinalizer(s) }, reclaimed},
	} {
		other := world(tc.edit)
		other.Volume.Name = "other"
		s := world(func(s *Snapshot) { s.SameHandle = []SameHandle{{other.Volume, ClaimGone}} })
		if got := shape(Decide(s)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// D-37: only PersistentVolumes that were not looked at before the decision are new.
func TestNotInSnapshot(t *testing.T) {
	other := func(name string) SameHandle {
		return SameHandle{Volume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	}
	for name, tc := range map[string]struct {
		known []SameHandle
		names []string
		want  []string
	}{
		"none":               {nil, nil, nil},
		"all are known":      {[]SameHandle{other("a"), other("b")}, []string{"b", "a"}, nil},
		"one is new":         {[]SameHandle{other("a")}, []string{"a", "b"}, []string{"b"}},
		"one is gone by now": {[]SameHandle{other("a")}, nil, nil},
	} {
		if got := NotInSnapshot(Snapshot{SameHandle: tc.known}, tc.names); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
