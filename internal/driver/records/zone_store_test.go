package records

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
)

func all(backend.ID) (bool, error) { return true, nil }

func newStore(t *testing.T, dir string) *ZoneStore {
	t.Helper()
	s := NewZoneStore(dir, []Zone{{Name: "a", Bytes: 10}, {Name: "b"}}, nil)
	if err := s.Recover(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	return s
}

func wantZone(t *testing.T, s *ZoneStore, volume backend.ID, want string) {
	t.Helper()
	if got, _ := s.Of(volume); got != want {
		t.Errorf("volume %s is in zone %q, want %q", volume, got, want)
	}
}

// A volume is in the first wanted zone that has room for it, and a deleted volume makes room.
func TestFirstZoneWithCapacityIsChosen(t *testing.T) {
	s := newStore(t, t.TempDir())
	one, two, three := backend.IDOf("one"), backend.IDOf("two"), backend.IDOf("three")
	for _, step := range []struct {
		volume backend.ID
		bytes  int64
		wanted []string
		zone   string
		full   bool
	}{
		{one, 6, []string{"a", "b"}, "a", false},
		{one, 7, []string{"a"}, "a", false}, // again, since the first attempt failed
		{two, 4, []string{"a"}, "", true},
		{two, 4, []string{"a", "b"}, "b", false},
		{two, 3, []string{"a"}, "a", false}, // it was never made, and moves
		{three, 1, nil, "", true},
		{three, 1, []string{"c"}, "", true},
	} {
		if err := s.Place(step.volume, step.bytes, step.wanted); fault.Exhausted.Is(err) != step.full || err != nil && !step.full {
			t.Fatalf("%+v: %v", step, err)
		}
		wantZone(t, s, step.volume, step.zone)
	}
	if err := s.Remove(one); err != nil {
		t.Fatal(err)
	}
	if free, bounded := s.FreeBytes([]string{"a"}); free != 7 || !bounded {
		t.Errorf("free: %d, %v", free, bounded)
	}
	if _, bounded := s.FreeBytes([]string{"a", "b"}); bounded {
		t.Error("zone b has a bound")
	}
}

// A volume grows as far as its zone has room.
func TestResize(t *testing.T) {
	s := newStore(t, t.TempDir())
	volume := backend.IDOf("v")
	if err := s.Place(volume, 5, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Resize(volume, 11); !fault.OutOfRange.Is(err) {
		t.Error(err)
	}
	if err := s.Resize(volume, 10); err != nil {
		t.Error(err)
	}
	if free, _ := s.FreeBytes([]string{"a"}); free != 0 {
		t.Errorf("free: %d", free)
	}
	if err := s.Resize(backend.IDOf("of no zone"), 100); err != nil {
		t.Error(err)
	}
}

// The next process finds the zones of the volumes that exist.
func TestRecover(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	made, unmade := backend.IDOf("made"), backend.IDOf("unmade")
	for _, volume := range []backend.ID{made, unmade} {
		if err := s.Place(volume, 5, []string{"a"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, durable.TempPrefix+"1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next := NewZoneStore(dir, s.zones, nil)
	if err := next.Recover(t.Context(), func(volume backend.ID) (bool, error) { return volume == made, nil }); err != nil {
		t.Fatal(err)
	}
	wantZone(t, next, made, "a")
	wantZone(t, next, unmade, "")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
	if err := os.WriteFile(filepath.Join(dir, nameOf(made)), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewZoneStore(dir, s.zones, nil).Recover(t.Context(), all); err == nil {
		t.Error("a damaged record is no error")
	}
}
