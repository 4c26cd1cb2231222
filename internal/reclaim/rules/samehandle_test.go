package reclaim

import (
	"testing"

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
		if got := shape(decided(world(sameHandle(tc.edit)))); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// D-37: only PersistentVolumes that were not looked at before the decision are new.
func TestIsNew(t *testing.T) {
	read := func(what string, names ...string) Snapshot { return world(with(what, "h", Answer{Names: names})) }
	for name, tc := range map[string]struct {
		s    Snapshot
		name string
		want bool
	}{
		"the volume itself":      {world(), "pv", false},
		"one, and none is known": {world(), "a", true},
		"one is known":           {read(ReadSameHandle, "a", "b"), "b", false},
		"another is known":       {read(ReadSameHandle, "a"), "b", true},
		"one was listed":         {read(ReadAllVolumes, "a"), "a", false},
	} {
		if got := tc.s.IsNew(tc.name); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
