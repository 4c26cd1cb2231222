package loopfile

import (
	"context"
	"path/filepath"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// measureEvery is how old the measured sizes of images may be. Pods write at any time.
const measureEvery = 5 * time.Second

// The names of its entries are directories.
func (b *Backend) volumeEntry(id backend.ID) string   { return b.volumeDir(id) }
func (b *Backend) snapshotEntry(id backend.ID) string { return b.snapshotDir(id) }

func (b *Backend) disk() (Disk, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(b.volumes, &stat); err != nil {
		return Disk{}, fault.Unready.Errorf("measure the pool at %s: %w", b.volumes, err)
	}
	return Disk{
		Free: int64(stat.Bavail) * stat.Frsize,
		Used: int64(stat.Blocks-stat.Bfree) * stat.Frsize,
	}, nil
}

// Available implements backend.Pool.
func (b *Backend) Available(context.Context) (int64, error) {
	disk, err := b.disk()
	if err != nil {
		return 0, err
	}
	b.remeasure()
	return b.promises.Left(disk, b.config.OverCommit), nil
}

// Promised implements backend.Promiser.
func (b *Backend) Promised() (bytes, left int64, err error) {
	disk, err := b.disk()
	if err != nil {
		return 0, 0, err
	}
	b.remeasure()
	return b.promises.Total(), b.promises.Left(disk, b.config.OverCommit), nil
}

// Space implements backend.SpaceReader.
func (b *Backend) Space(ctx context.Context) (map[backend.ID]int64, error) {
	ids, err := b.List(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[backend.ID]int64, len(ids))
	for _, id := range ids {
		if space, err := image.Measure(filepath.Join(b.volumeEntry(id), imageFile)); err == nil {
			all[id] = space.Allocated
		}
	}
	return all, nil
}

// LeastSize implements backend.Sized.
func (b *Backend) LeastSize(capabilities []backend.Capability) (int64, error) {
	t, err := filesystemOf(capabilities)
	if err != nil {
		return 0, err
	}
	_, bytes := leastOf(t)
	return bytes, nil
}

// promise books the size of a volume that is about to be made or to grow.
func (b *Backend) promise(entry string, bytes int64, s settings) error {
	disk, err := b.disk()
	if err != nil {
		return err
	}
	b.remeasure()
	limit := b.config.OverCommit
	if s.overCommit > 0 {
		limit = min(limit, s.overCommit)
	}
	return b.promises.Promise(entry, bytes, disk, limit)
}

// account sets the entry of an image. A volume may take up to its whole size, a snapshot never more
// than it takes now.
func (b *Backend) account(entry string) {
	space, err := image.Measure(filepath.Join(entry, imageFile))
	if err != nil {
		b.promises.Remove(entry)
		return
	}
	e := Entry{Promised: max(space.Size, space.Allocated), Allocated: space.Allocated}
	if filepath.Dir(entry) != b.volumes {
		e.Promised = space.Allocated
	}
	b.promises.Set(entry, e)
}

// remeasure reads the space of every image, so it is not done in every call.
func (b *Backend) remeasure() {
	b.measuredLock.Lock()
	defer b.measuredLock.Unlock()
	if time.Since(b.measured) < measureEvery {
		return
	}
	for _, name := range b.promises.Names() {
		if space, err := image.Measure(filepath.Join(name, imageFile)); err == nil {
			b.promises.Measured(name, space.Allocated)
		}
	}
	b.measured = time.Now()
}

// accountAll fills the record of promises at the start.
func (b *Backend) accountAll() error {
	volumes, err := idsIn(b.volumes)
	if err != nil {
		return err
	}
	snapshots, err := b.ListSnapshots(context.Background())
	if err != nil {
		return err
	}
	for _, id := range volumes {
		b.account(b.volumeEntry(id))
	}
	for _, id := range snapshots {
		b.account(b.snapshotEntry(id))
	}
	b.measured = time.Now()
	return nil
}
