package directory

import (
	"context"
	"errors"
	"os"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"golang.org/x/sys/unix"
)

// List implements backend.Lister. A name that is no id is not a volume but
// something that was put there by hand, or the lost+found of a filesystem.
func (b *Backend) List(context.Context) ([]backend.ID, error) {
	entries, err := os.ReadDir(b.volumes) // sorted by name
	if err != nil {
		return nil, fault.Internal.Errorf("list the volumes: %w", err)
	}
	ids := make([]backend.ID, 0, len(entries))
	for _, entry := range entries {
		if id, err := backend.ParseID(entry.Name()); err == nil && entry.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Available implements backend.Pool. Volumes share the filesystem and reserve
// nothing, so each new one can have all that is free.
func (b *Backend) Available(context.Context) (int64, error) {
	stat, err := statfs(b.volumes)
	if err != nil {
		return 0, fault.Internal.Errorf("measure the state directory: %w", err)
	}
	return int64(stat.Bavail) * stat.Frsize, nil
}

// Usage implements backend.UsageReader. The numbers are those of the whole
// filesystem, which is what limits a directory.
func (b *Backend) Usage(_ context.Context, id backend.ID, path string) ([]backend.Usage, error) {
	stat, err := statfs(path)
	if errors.Is(err, unix.ENOENT) {
		return nil, fault.NotFound.Errorf("volume %q is not at %q any more", id, path)
	}
	if err != nil {
		return nil, fault.Internal.Errorf("measure volume %q: %w", id, err)
	}
	return []backend.Usage{
		{
			Unit:      backend.Bytes,
			Total:     int64(stat.Blocks) * stat.Frsize,
			Used:      int64(stat.Blocks-stat.Bfree) * stat.Frsize,
			Available: int64(stat.Bavail) * stat.Frsize,
		},
		{
			Unit:      backend.Inodes,
			Total:     int64(stat.Files),
			Used:      int64(stat.Files - stat.Ffree),
			Available: int64(stat.Ffree),
		},
	}, nil
}

func statfs(path string) (unix.Statfs_t, error) {
	var stat unix.Statfs_t
	err := unix.Statfs(path, &stat)
	return stat, err
}
