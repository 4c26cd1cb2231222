package loopfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/reserve"
	"github.com/purser-csi/purser/internal/loopdev"
	"github.com/purser-csi/purser/internal/mount"
)

// Recover implements backend.Recoverer: it makes the folders, thaws the filesystems that a killed
// driver had frozen, opens the devices of staged volumes again, and removes half created and half
// deleted volumes.
func (b *Backend) Recover(ctx context.Context) error {
	for _, dir := range b.folders() {
		if err := b.reserve.Do(func() error { return os.MkdirAll(dir, ownMode) }); err != nil {
			return fmt.Errorf("make the state directory: %w", err)
		}
	}
	// First, because pods are waiting.
	if err := b.thawAll(ctx); err != nil {
		return fmt.Errorf("undo freezes: %w", err)
	}
	if err := b.recoverDevices(ctx); err != nil {
		return fmt.Errorf("find our loop devices: %w", err)
	}
	for _, dir := range []string{b.temp, b.trash} {
		if err := sweep(ctx, dir); err != nil {
			return err
		}
	}
	if err := b.accountAll(); err != nil {
		return err
	}
	b.makeReserve(ctx)
	return b.sayHowCopiesAreMade(ctx)
}

func (b *Backend) sayHowCopiesAreMade(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	shared, err := image.CanShare(b.temp)
	if reserve.IsFull(err) {
		log.Info("Not known how snapshots and clones are made: the pool is full", "pool", b.config.StateDir)
		return nil
	}
	if err != nil {
		return fmt.Errorf("find out how the pool copies: %w", err)
	}
	if shared {
		log.Info("Snapshots and clones share space with their source and take milliseconds", "pool", b.config.StateDir)
	} else {
		log.Info(
			"Snapshots and clones are full copies: the filesystem of the pool cannot share space between files, xfs "+
				"and btrfs can",
			"pool", b.config.StateDir,
		)
	}
	return nil
}

// recoverDevices holds the devices of staged volumes again and detaches the
// others that have an image of ours.
func (b *Backend) recoverDevices(ctx context.Context) error {
	all, err := loopdev.All(loopdev.Named(imageFile))
	if err != nil {
		return err
	}
	defer func() {
		for _, devices := range all {
			for _, device := range devices {
				_ = device.Release()
			}
		}
	}()
	volumes, err := idsIn(b.volumes)
	if err != nil {
		return err
	}
	for _, id := range volumes {
		inode, err := loopdev.InodeOf(b.imageOf(id))
		if err != nil {
			continue // damaged; Health says so
		}
		all[inode] = b.recoverVolume(ctx, id, all[inode])
	}
	b.detachOrphans(ctx, all)
	return b.forgetStale(ctx)
}

// recoverVolume keeps the device of a staged volume open, and returns the other devices of the
// volume.
func (b *Backend) recoverVolume(ctx context.Context, id backend.ID, devices []*loopdev.Device) []*loopdev.Device {
	log := logr.FromContextOrDiscard(ctx).WithValues("volume", id.String())
	r, err := b.readRecord(id)
	if err != nil {
		log.Error(err, "Not known whether it is staged")
		return devices
	}
	var rest []*loopdev.Device
	for _, device := range devices {
		staged := r != nil && b.held(id) == nil && isUp(device, *r)
		switch {
		case staged:
			b.hold(id, device)
		case inUse(device):
			log.Info(
				"A loop device of the volume is in use although it is not staged; it is left alone",
				"device",
				device.Path(),
			)
			rest = append(rest, device)
		default:
			if err := detach(ctx, device); err != nil {
				log.Error(err, "A loop device without users stays attached", "device", device.Path())
				continue
			}
			log.Info("Detached a loop device of an interrupted call", "device", device.Path())
		}
	}
	return rest
}

// isUp says whether staging was finished: a block volume has no other sign of
// it than its device.
func isUp(device *loopdev.Device, r record) bool {
	if r.Access == backend.Block {
		return true
	}
	if r.Path == "" {
		users, err := device.Users()
		return err == nil && len(users.Mounted) > 0
	}
	mounted, err := mountedAt(device, r.Path)
	return err == nil && mounted
}

func inUse(device *loopdev.Device) bool {
	users, err := device.Users()
	return err != nil || len(users.Mounted)+len(users.Bound)+len(users.Stacked) > 0
}

// detachOrphans detaches devices whose image was one of this backend and is deleted. Only here
// devices are recognised by path, since the inode no longer exists.
func (b *Backend) detachOrphans(ctx context.Context, all map[loopdev.Inode][]*loopdev.Device) {
	state, err := filepath.EvalSymlinks(b.config.StateDir)
	if err != nil {
		return
	}
	for inode, devices := range all {
		var rest []*loopdev.Device
		for _, device := range devices {
			path, deleted := strings.CutSuffix(device.BackingPath(), " (deleted)")
			if !deleted || !strings.HasPrefix(path, state+"/") || inUse(device) {
				rest = append(rest, device)
				continue
			}
			if err := detach(ctx, device); err == nil {
				logr.FromContextOrDiscard(ctx).
					Info("Detached a loop device whose image is gone", "device", device.Path(), "image", path)
			}
		}
		all[inode] = rest
	}
}

// forgetStale removes the records of volumes that are not staged any more:
// the machine was booted, or the program killed between two steps.
func (b *Backend) forgetStale(ctx context.Context) error {
	entries, err := os.ReadDir(b.staged)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name, isRecord := strings.CutSuffix(entry.Name(), recordSuffix)
		id, err := backend.ParseID(name)
		if !isRecord || err != nil || b.held(id) != nil {
			continue
		}
		// A device in use that recoverVolume did not hold is left for an
		// operator to check. Without a device nothing can be staged, whatever
		// the record says: a power loss leaves empty records.
		if device, err := b.deviceOf(id); err != nil && !errors.Is(err, os.ErrNotExist) || device != nil {
			continue
		}
		logr.FromContextOrDiscard(ctx).Info("The volume is not staged any more", "volume", name)
		if err := b.removeRecord(id); err != nil {
			return err
		}
	}
	return nil
}

// sweep logs a leftover that it cannot remove instead of failing, since no volume depends on it.
func sweep(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for leftovers: %w", err)
	}
	log := logr.FromContextOrDiscard(ctx)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		mounts, err := mount.Below(path)
		if err == nil && len(mounts) == 0 {
			err = os.RemoveAll(path)
		}
		if err != nil || len(mounts) > 0 {
			log.Error(err, "A leftover of an earlier run stays", "path", path, "mounts", mounts)
			continue
		}
		log.Info("Removed a leftover of an earlier run", "path", path)
	}
	return nil
}
