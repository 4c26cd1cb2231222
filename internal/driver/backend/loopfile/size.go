package loopfile

import (
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

const (
	mebi = 1 << 20
	// defaultBytes is the size of a volume that is asked for without one.
	defaultBytes = 1 << 30
	// unit is what sizes are rounded up to, and leastUnit what they must be a
	// multiple of when the limit is tight: a page.
	unit, leastUnit = mebi, 4096
	// mostBytes is the largest size of a file on any filesystem.
	mostBytes = 1<<63 - 1 - unit
)

// leastOf is the smallest size of a volume that holds this.
func leastOf(t filesystem.Type) (what string, bytes int64) {
	if t == filesystem.Nothing {
		return "a block volume", leastUnit
	}
	return string(t), t.Minimum()
}

// chooseSize gives the size of a volume. A request below the smallest size is
// raised to it where the limit allows: a caller that sets no limit accepts a
// larger volume ("capacity_range" of CreateVolumeRequest).
func chooseSize(size backend.Range, what string, minimum int64) (int64, error) {
	wish := size.Required
	if wish == 0 {
		wish = max(defaultBytes, minimum)
		if size.Limit > 0 {
			wish = min(wish, size.Limit/leastUnit*leastUnit)
		}
	}
	if wish < minimum && size.Limit > 0 && size.Limit < minimum {
		return 0, fault.OutOfRange.Errorf(
			"capacity_range: at most %d bytes are too small for %s; allow at least %d (%d Mi)",
			size.Limit,
			what,
			minimum,
			(minimum+mebi-1)/mebi,
		)
	}
	wish = max(wish, minimum)
	if wish > mostBytes {
		return 0, fault.OutOfRange.Errorf("capacity_range: %d bytes are more than a file can have", wish)
	}
	for _, step := range []int64{unit, leastUnit} {
		if rounded := (wish + step - 1) / step * step; size.Limit == 0 || rounded <= size.Limit {
			return rounded, nil
		}
	}
	return 0, fault.OutOfRange.Errorf(
		"capacity_range: sizes are multiples of %d bytes, and there is none between required_bytes %d and "+
			"limit_bytes %d; raise the limit",
		leastUnit,
		size.Required,
		size.Limit,
	)
}

// roundedUp returns the size of a volume that is asked for without a limit; 0 if there is none.
func roundedUp(asked int64, holds filesystem.Type) int64 {
	what, minimum := leastOf(holds)
	bytes, err := chooseSize(backend.Range{Required: asked}, what, minimum)
	if err != nil {
		return 0
	}
	return bytes
}

// whenGrown returns the size range for a volume whose filesystem has to be expanded. Some
// filesystems can only be expanded to a minimum size. The volume then gets this size: it may be
// larger than required, but its filesystem must not be smaller than the volume.
func whenGrown(size backend.Range, holds filesystem.Type, have int64) (backend.Range, error) {
	least := holds.LeastGrown()
	if size.Required <= have || size.Required >= least {
		return size, nil
	}
	if size.Limit > 0 && size.Limit < least {
		return size, fault.OutOfRange.Errorf(
			"capacity_range: a %s of %d bytes grows to %d bytes (%d Mi) or more only; raise the limit to that",
			holds,
			have,
			least,
			least/mebi,
		)
	}
	size.Required = least
	return size, nil
}
