package ceph

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/mapping"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/mount"
)

// unstage needs no cluster and no user.
func (b *Backend) unstage(ctx context.Context, id backend.ID, path string) error {
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
	if o.Kind == handle.RBD {
		if err := b.refuseInUse(ctx, id, o, r); err != nil {
			return err
		}
	}
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

// refuseInUse returns an error while the device is in use elsewhere than at the staging path, since
// not every way of mapping refuses to unmap a device in use.
func (b *Backend) refuseInUse(ctx context.Context, id backend.ID, o handle.Object, r stagedRecord) error {
	device, err := b.deviceOf(ctx, id, o, r)
	if fault.Unready.Is(err) {
		return nil
	}
	if err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return fault.Internal.Errorf("look for users of %s: %w", device, err)
	}
	if at := usedAt(mounts, device, realPath(r.Path)); at != "" {
		return fault.InUse.Errorf("volume %q is still in use at %s; unpublish it there first", id, at)
	}
	return nil
}

// realPath is a path as the mount table shows it.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// usedAt returns where a device or its filesystem is mounted beside its staging
// path and the copies of that in its peer group; "" for nowhere.
func usedAt(mounts []*mountinfo.Info, device, staging string) string {
	node, copies := filepath.Base(device), mount.PeerCopies(mounts, staging)
	for _, m := range mounts {
		published := m.Source == device && !copies[m.Mountpoint]
		bound := m.FSType == "devtmpfs" && filepath.Base(m.Root) == node
		if published || bound {
			return m.Mountpoint
		}
	}
	return ""
}

func (b *Backend) unmap(ctx context.Context, id backend.ID, o handle.Object, r stagedRecord) error {
	mapper, known := mapping.Named(b.mappers, r.Way)
	if !known {
		return fault.Internal.Errorf(
			"volume %q was mapped by %q, which this version does not know; unmap it by hand and remove %s",
			id,
			r.Way,
			b.stagedDir(id),
		)
	}
	image := b.image(id, o)
	if err := b.tidy(ctx, id, r, mapper); err != nil {
		return err
	}
	return mapper.Unmap(ctx, image)
}

// tidy prepares an image for use by any node.
func (b *Backend) tidy(ctx context.Context, id backend.ID, r stagedRecord, mapper mapping.Mapper) error {
	o, err := volumeOf(id)
	if err != nil {
		return err
	}
	device, err := mapper.Find(ctx, b.image(id, o))
	if err != nil || device == "" {
		return err
	}
	if r.Formatting {
		return eraseUnfinished(device)
	}
	if err := b.undoResize(ctx, id, device); err != nil {
		return err
	}
	// Taking a device away is no last close while a process has it open: what
	// a pod has written and not synced is written here.
	return flush(device)
}

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
	if _, err := b.lookStaged(ctx, id, r.Path, r.Access); err == nil && isThere(r.Path) {
		return nil // lookStaged holds its device open
	} else if err != nil && !fault.Unready.Is(err) {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("Taking away what is no longer staged", "volume", name, "path", r.Path)
	return b.bringDown(ctx, id, o, r)
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (b *Backend) nodeExpand(ctx context.Context, e backend.NodeExpansion) (int64, error) {
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
	mapper, _ := mapping.Named(b.mappers, r.Way)
	if resizer, ok := mapper.(mapping.Resizer); ok {
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
		return 0, fault.OutOfRange.Errorf(
			"capacity_range.required_bytes %d: volume %q has %d bytes here; expand it in the controller first",
			e.Size.Required,
			e.Volume,
			bytes,
		)
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

// usage does not report how full a block device is, since only the pod that uses it knows.
func usage(id backend.ID, path string) ([]backend.Usage, error) {
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
	all := []backend.Usage{{
		Unit:      backend.Bytes,
		Total:     int64(stat.Blocks) * stat.Frsize,
		Used:      int64(stat.Blocks-stat.Bfree) * stat.Frsize,
		Available: int64(stat.Bavail) * stat.Frsize,
	}}
	// btrfs and CephFS have no table of inodes that could be full.
	if o, err := volumeOf(id); err == nil && o.Kind == handle.RBD && stat.Files > 0 {
		all = append(all, backend.Usage{
			Unit: backend.Inodes, Total: int64(stat.Files), Used: int64(stat.Files - stat.Ffree), Available: int64(stat.Ffree),
		})
	}
	return all, nil
}

// stagedHealth returns why a staged volume cannot be used.
func (b *Backend) stagedHealth(ctx context.Context, id backend.ID) (problem string, err error) {
	r, found, err := b.readStaged(id)
	if err != nil || !found {
		return "", err
	}
	if _, err := b.lookStaged(ctx, id, r.Path, r.Access); err != nil {
		return err.Error() + "; if the daemon behind it has ended, its pods must start anew", nil
	}
	return "", nil
}
