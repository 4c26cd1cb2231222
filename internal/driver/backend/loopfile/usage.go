package loopfile

import (
	"context"
	"errors"
	"os"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/fault"
	"golang.org/x/sys/unix"
)

// Usage implements backend.UsageReader. How full a block device is, only the pod that uses it
// knows.
func (b *Backend) Usage(_ context.Context, id backend.ID, path string) ([]backend.Usage, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fault.NotFound.Errorf("volume %q is not at %q any more", id, path)
	}
	if err != nil {
		return nil, fault.Internal.Errorf("measure volume %q: %w", id, err)
	}
	if !info.IsDir() {
		space, err := image.Measure(b.imageOf(id))
		if err != nil {
			return nil, backend.Damaged("volume", id, imageFile, err)
		}
		return []backend.Usage{{Unit: backend.Bytes, Total: space.Size}}, nil
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return nil, fault.Internal.Errorf("measure volume %q: %w", id, err)
	}
	usage := []backend.Usage{{
		Unit:      backend.Bytes,
		Total:     int64(stat.Blocks) * stat.Frsize,
		Used:      int64(stat.Blocks-stat.Bfree) * stat.Frsize,
		Available: int64(stat.Bavail) * stat.Frsize,
	}}
	// btrfs has no table of inodes that could be full.
	if stat.Files > 0 {
		usage = append(usage, backend.Usage{
			Unit:      backend.Inodes,
			Total:     int64(stat.Files),
			Used:      int64(stat.Files - stat.Ffree),
			Available: int64(stat.Ffree),
		})
	}
	return usage, nil
}
