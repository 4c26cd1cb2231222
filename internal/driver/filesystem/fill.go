package filesystem

import (
	"context"
	"errors"
	"fmt"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// The steps by which every backend with devices makes a filesystem consistent and as large as its
// device:
//
//  1. BeforeMount, while it is not mounted: repair, and the growing that this
//     process may not do later.
//  2. Mount.
//  3. Fill, when it is staged and after each expansion.

// smallestGap is how many blocks an ext4 may be smaller than its device
// without being expanded: it leaves a rest that is too small for a group of
// blocks unused at the end.
const smallestGap = 2048

// Work changes the filesystem on a file or device that is not mounted. The
// overwritten blocks are kept in the file undo, see Undo.
type Work func(ctx context.Context, path, undo string) error

// BeforeMount returns the work that is due before a filesystem is mounted on a
// device of some size; nil for none. Only ext4 needs any: it is repaired when
// the kernel found it damaged, and grown where this process must not do that
// while it is mounted.
func BeforeMount(c Content, deviceBytes int64) Work {
	switch {
	case c.Type != Ext4:
		return nil
	case deviceBytes-c.Bytes >= smallestGap*c.BlockBytes && !MayGrowMounted(c.Type):
		return GrowUnmounted
	case c.Faulty:
		return Check
	default:
		return nil
	}
}

// Fill lets the filesystem on a device, which is mounted at path, take all of
// its size. fault.InUse when this process must not grow it while it is mounted.
func Fill(device, path string, deviceBytes int64) error {
	c, err := Probe(device)
	if err != nil {
		return fault.Internal.Errorf("look at the filesystem on %s: %w", device, err)
	}
	gap := deviceBytes - c.Bytes
	if c.Type == Nothing || gap < c.BlockBytes || deviceBytes < c.Type.LeastGrown() {
		return nil
	}
	err = Grow(c.Type, path, deviceBytes)
	if !errors.Is(err, ErrNotWhileMounted) {
		return err
	}
	if gap < smallestGap*c.BlockBytes {
		return nil
	}
	return fault.InUse.Errorf("%w; it grows when it is staged the next time, so restart its pods", err)
}

// CannotCheck is the error of Work that failed.
func CannotCheck(path string, cause error) error {
	return fmt.Errorf("the filesystem has to be checked and cannot be: %w; run e2fsck on %s", cause, path)
}
