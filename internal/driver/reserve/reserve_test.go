package reserve

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/fault"
	"golang.org/x/sys/unix"
)

// pool mounts a small tmpfs, and unmounts it at the end.
func pool(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small filesystem")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("leave no mount behind: %v", err)
		}
	})
	return dir
}

// occupy takes all blocks and all inodes.
func occupy(t *testing.T, dir string) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	at := int64(0)
	for step := int64(1 << 20); step >= 4096; step /= 2 {
		for unix.Fallocate(int(file.Fd()), 0, at, step) == nil {
			at += step
		}
	}
	for i := 0; ; i++ {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("empty", i)), nil, 0o600); err != nil {
			return
		}
	}
}

func TestTheReserveMakesRoomForARecord(t *testing.T) {
	dir := pool(t, "size=16m,nr_inodes=256")
	r := New(dir)
	if whole, err := r.Make(); err != nil || !whole {
		t.Fatalf("Make = %v, %v", whole, err)
	}
	if err := r.Admit(); err != nil {
		t.Fatalf("Admit in an empty pool: %v", err)
	}
	occupy(t, dir)
	if err := r.Admit(); !fault.Exhausted.Is(err) || !strings.Contains(err.Error(), "0 KiB and 0 inodes are free") {
		t.Errorf("Admit in a full pool: %v", err)
	}
	if !r.IsWhole() {
		t.Error("Admit released the reserve")
	}
	path := filepath.Join(dir, "record")
	if err := r.WriteFile(path, dir, []byte("x")); err != nil {
		t.Errorf("a record in a full pool: %v", err)
	}
	occupy(t, dir)
	if err := r.WriteFile(path, dir, []byte("y")); !fault.Exhausted.Is(err) {
		t.Errorf("a record without the reserve: %v, want exhausted", err)
	}
	if whole, err := r.Make(); err != nil || whole {
		t.Errorf("Make in a full pool = %v, %v", whole, err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "ballast")), removeAll(dir, "empty*")); err != nil {
		t.Fatal(err)
	}
	if err := r.Admit(); err != nil || !r.IsWhole() {
		t.Errorf("when there is room again: %v, whole %v", err, r.IsWhole())
	}
}

func removeAll(dir, pattern string) error {
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	for _, path := range paths {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

func TestDiscardInAPoolWithoutRoom(t *testing.T) {
	dir := pool(t, "size=16m,nr_inodes=256")
	r, volume, trash := New(dir), filepath.Join(dir, "volumes", "vol"), filepath.Join(dir, "trash")
	if err := errors.Join(os.MkdirAll(volume, 0o700), os.Mkdir(trash, 0o700), os.WriteFile(filepath.Join(volume, "volume.json"), []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	occupy(t, dir)
	left, err := r.Discard(volume, trash, "volume.json")
	if left != nil || err != nil || isThere(volume) {
		t.Errorf("Discard = %v, %v; still there: %v", left, err, isThere(volume))
	}
	if entries, err := os.ReadDir(trash); err != nil || len(entries) > 0 {
		t.Errorf("left in trash: %v, %v", entries, err)
	}
}

// Where not even a name can be made, the metadata goes first and nothing stays.
func TestRemoveInPlace(t *testing.T) {
	dir := t.TempDir()
	volume := filepath.Join(dir, "vol")
	if err := errors.Join(os.MkdirAll(filepath.Join(volume, "data", "more"), 0o700), os.WriteFile(filepath.Join(volume, "volume.json"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a repeated call goes on
		if err := removeInPlace(volume, "volume.json"); err != nil && isThere(volume) {
			t.Fatal(err)
		}
	}
	if isThere(volume) {
		t.Error("the volume is still there")
	}
}

func TestAdmit(t *testing.T) {
	tests := []struct {
		name  string
		free  room
		whole bool
		full  bool
	}{
		{"room", room{8 << 20, 100}, true, false},
		{"just enough", room{leastBytes, leastInodes}, true, false},
		{"no block", room{leastBytes - 1, 100}, true, true},
		{"no inode", room{8 << 20, leastInodes - 1}, true, true},
		{"nothing", room{}, true, true},
		{"no reserve, and room for the volume alone", room{leastBytes, 100}, false, true},
		{"no reserve, and room for both", room{leastBytes + 2*bytes, 100}, false, false},
		{"no fixed number of inodes", room{8 << 20, math.MaxInt64}, true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := admit("/pool", test.free, test.whole)
			if fault.Exhausted.Is(err) != test.full || (err != nil) != test.full {
				t.Errorf("admit = %v, want refused: %v", err, test.full)
			}
		})
	}
}

func TestNoReserve(t *testing.T) {
	var r *Reserve
	if err := r.Do(func() error { return unix.ENOSPC }); !IsFull(err) {
		t.Errorf("Do = %v", err)
	}
	if whole, err := r.Make(); !whole || err != nil || !r.IsWhole() || r.IsLow() || r.Admit() != nil {
		t.Error("a nil reserve is missing")
	}
}
