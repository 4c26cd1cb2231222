package ceph

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/mapping"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/filesystem"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Unstage implements backend.Stager. It needs no cluster and no user.
func (b *Backend) Unstage(ctx context.Context, id backend.ID, path string) error {
	o, err := volumeOf(id)
	if err != nil {
		return nil //nolint:nilerr // No volume has such an id.
	}
	r, found, err := b.readStaged(id)
	if err != nil {
		return err
	}
	if !found || r.Path != path {
		return nil
	}
	return b.bringDown(ctx, id, o, r)
}

func (b *Backend) bringDown(ctx context.Context, id backend.ID, o handle.Object, r stagedRecord) error {
	if r.Access == backend.Mount {
		if err := filesystem.Unmount(r.Path); err != nil {
			return err
		}
	}
	if o.Kind == handle.RBD {
		if err := b.unmap(ctx, id, o, r); err != nil {
			return err
		}
	}
	return b.removeStaged(id)
}

func (b *Backend) unmap(ctx context.Context, id backend.ID, o handle.Object, r stagedRecord) error {
	way, known := mapping.Named(b.ways, r.Way)
	if !known {
		return fault.Internal.Errorf("volume %q was mapped by %q, which this version does not know; unmap it by hand and remove %s", id, r.Way, b.stagedDir(id))
	}
	image := b.image(id, o)
	if err := b.tidy(ctx, id, r, way); err != nil {
		return err
	}
	return way.Unmap(ctx, image)
}

// tidy leaves an image as any node can use it.
func (b *Backend) tidy(ctx context.Context, id backend.ID, r stagedRecord, way mapping.Way) error {
	o, err := volumeOf(id)
	if err != nil {
		return err
	}
	device, err := way.Find(ctx, b.image(id, o))
	if err != nil || device == "" {
		return err
	}
	if r.Formatting {
		return eraseUnfinished(device)
	}
	return b.undoResize(ctx, id, device)
}

// Recover implements backend.Recoverer: it takes away what is no longer
// staged. What a pod can still use stays: the daemons outlive the driver.
func (b *Backend) Recover(ctx context.Context) error {
	for _, dir := range []string{b.staged, b.reach.placesDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fault.Internal.Errorf("make the folders of the backend: %w", err)
		}
	}
	entries, err := os.ReadDir(b.staged)
	if err != nil {
		return fault.Internal.Errorf("list what is staged: %w", err)
	}
	for _, entry := range entries {
		log := logr.FromContextOrDiscard(ctx).WithValues("volume", entry.Name())
		if err := b.recoverOne(ctx, entry.Name()); err != nil {
			log.Error(err, "What was staged before the driver started could not be taken away; it is tried again when it is staged or unstaged")
		}
	}
	return nil
}

// recoverOne must not keep the driver from starting: other volumes are well.
func (b *Backend) recoverOne(ctx context.Context, name string) error {
	o, err := handle.Parse(name)
	if err != nil {
		return fault.Internal.Errorf("%s is no volume: %w", name, err)
	}
	id, err := o.ID()
	if err != nil {
		return err
	}
	r, found, err := b.readStaged(id)
	if err != nil {
		return err
	}
	if !found {
		return b.removeStaged(id)
	}
	if _, err := b.Staged(ctx, id, r.Path, r.Access); err == nil && isThere(r.Path) {
		return nil // Staged has taken hold of its device
	} else if err != nil && !fault.Unready.Is(err) {
		return err
	}
	if _, err := b.deviceOf(ctx, id, o, r); r.Formatting && err != nil {
		return nil //nolint:nilerr // The mark stays until it is staged again.
	}
	logr.FromContextOrDiscard(ctx).Info("Taking away what is no longer staged", "volume", name, "path", r.Path)
	return b.bringDown(ctx, id, o, r)
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// NodeExpand implements backend.NodeExpander.
func (b *Backend) NodeExpand(ctx context.Context, e backend.NodeExpansion) (int64, error) {
	o, err := volumeOf(e.Volume)
	if err != nil {
		return 0, err
	}
	r, found, err := b.readStaged(e.Volume)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, fault.Unready.Errorf("volume %q is not staged; it grows when it is", e.Volume)
	}
	if o.Kind == handle.CephFS { // the quota is all there is
		return quotaAt(r.Path)
	}
	way, _ := mapping.Named(b.ways, r.Way)
	if resizer, ok := way.(mapping.Resizer); ok {
		if err := resizer.Resized(ctx, b.image(e.Volume, o)); err != nil {
			return 0, err
		}
	}
	device, err := b.deviceOf(ctx, e.Volume, o, r)
	if err != nil {
		return 0, err
	}
	bytes, err := sizeOf(device)
	if err != nil {
		return 0, err
	}
	if bytes < e.Size.Required {
		return 0, fault.OutOfRange.Errorf("capacity_range.required_bytes %d: volume %q has %d bytes here; expand it in the controller first", e.Size.Required, e.Volume, bytes)
	}
	if r.Access == backend.Block {
		return bytes, nil
	}
	return growMounted(device, r.Path)
}

func quotaAt(path string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, fault.Internal.Errorf("look at %s: %w", path, err)
	}
	return int64(stat.Blocks) * stat.Frsize, nil
}

// Usage implements backend.UsageReader. Nothing knows how full a block device
// is but the pod that uses it.
func (b *Backend) Usage(_ context.Context, id backend.ID, path string) ([]backend.Usage, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.NotFound.Errorf("volume %q is not at %q any more", id, path)
	}
	if err != nil {
		return nil, fault.Internal.Errorf("measure volume %q: %w", id, err)
	}
	if !info.IsDir() {
		bytes, err := sizeOf(path)
		return []backend.Usage{{Unit: backend.Bytes, Total: bytes}}, err
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
	// btrfs and CephFS have no table of inodes that could be full.
	if o, err := volumeOf(id); err == nil && o.Kind == handle.RBD && stat.Files > 0 {
		usage = append(usage, backend.Usage{
			Unit: backend.Inodes, Total: int64(stat.Files), Used: int64(stat.Files - stat.Ffree), Available: int64(stat.Ffree),
		})
	}
	return usage, nil
}

// Health implements backend.HealthReader: a volume that is staged here is
// looked at here, any other one in its cluster.
func (b *Backend) Health(ctx context.Context, id backend.ID) (problem string, err error) {
	r, found, err := b.readStaged(id)
	if err != nil {
		return "", err
	}
	if !found {
		_, err := b.Get(ctx, id)
		return "", err
	}
	if _, err := b.Staged(ctx, id, r.Path, r.Access); err != nil {
		return err.Error() + "; if the daemon behind it has ended, its pods must start anew", nil
	}
	return "", nil
}
