package reserve

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/purser-csi/purser/internal/driver/fault"
	"golang.org/x/sys/unix"
)

// What must be free beside the reserve before something new is made.
const (
	leastBytes  = 1 << 20
	leastInodes = 8
)

// room is what is free on a filesystem.
type room struct{ bytes, inodes int64 }

func roomAt(path string) (room, error) {
	free, _, err := measure(path)
	return free, err
}

// measure returns the room that is left, and the bytes of the filesystem.
func measure(path string) (free room, size int64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return room{}, 0, fmt.Errorf("measure the pool at %s: %w", path, err)
	}
	free = room{bytes: int64(stat.Bavail) * stat.Frsize, inodes: int64(stat.Ffree)}
	if stat.Files == 0 { // btrfs makes inodes where it has space
		free.inodes = math.MaxInt64
	}
	return free, int64(stat.Blocks-stat.Bfree+stat.Bavail) * stat.Frsize, nil
}

// Admit refuses with fault.Exhausted to make something new in a pool that has only the reserve
// left, or not even that: what is made then would take the room that deletions need. It makes the
// reserve again where there is room for it. [IsFull] holds for the error.
func (r *Reserve) Admit() error {
	if r == nil {
		return nil
	}
	whole, err := r.Make()
	if err != nil {
		return err
	}
	free, err := roomAt(filepath.Dir(r.dir))
	if err != nil {
		return err
	}
	return admit(filepath.Dir(r.dir), free, whole)
}

// admit is pure.
func admit(path string, free room, whole bool) error {
	least := room{leastBytes, leastInodes}
	if !whole {
		least = room{leastBytes + bytes, leastInodes + inodes}
	}
	if free.bytes >= least.bytes && free.inodes >= least.inodes {
		return nil
	}
	return fault.Exhausted.Errorf(
		"the pool at %s is full (%w): %d KiB and %s are free, and something new needs %d KiB and %d inodes beside "+
			"the reserve for deletions; delete volumes or snapshots, or enlarge the disk",
		path, unix.ENOSPC, free.bytes>>10, inodesText(free.inodes), least.bytes>>10, least.inodes,
	)
}

func inodesText(n int64) string {
	if n == math.MaxInt64 {
		return "any number of inodes"
	}
	return fmt.Sprintf("%d inodes", n)
}

// State is what metrics show of a pool.
type State struct {
	// SizeBytes leaves out what only root may use.
	SizeBytes, FreeBytes int64
	// FreeInodes is negative where the filesystem has no fixed number of them.
	FreeInodes int64
	// ReserveBytes is 0 while the reserve is released.
	ReserveBytes int64
}

// Look measures the pool.
func (r *Reserve) Look() (State, error) {
	free, size, err := measure(filepath.Dir(r.dir))
	if err != nil {
		return State{}, err
	}
	s := State{SizeBytes: size, FreeBytes: free.bytes, FreeInodes: free.inodes}
	if free.inodes == math.MaxInt64 {
		s.FreeInodes = -1
	}
	if r.IsWhole() {
		s.ReserveBytes = bytes
	}
	return s, nil
}

// IsLow reports whether the pool has so little room that a write of a program may have failed for
// it, although its error does not say so.
func (r *Reserve) IsLow() bool {
	if r == nil {
		return false
	}
	free, err := roomAt(filepath.Dir(r.dir))
	return err == nil && (free.bytes < leastBytes || free.inodes < leastInodes)
}
