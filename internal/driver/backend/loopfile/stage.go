package loopfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/sys/mountinfo"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/loopdev"
)

// stagingMode is that of a staging path which the caller did not make.
const stagingMode = 0o750

// Stage implements backend.Stager.
func (b *Backend) Stage(ctx context.Context, s backend.Staging) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := inBackground(
		ctx,
		b,
		staging,
		s.Volume,
		s,
		func(ctx context.Context) (struct{}, error) { return struct{}{}, b.stage(ctx, s) },
	)
	return err
}

func (b *Backend) stage(ctx context.Context, s backend.Staging) error {
	release, err := b.locks.tryLock(s.Volume, "stage")
	if err != nil {
		return err
	}
	defer release()
	m, err := b.readVolume(s.Volume)
	if err != nil {
		return err
	}
	wanted := record{Path: s.Path, Access: s.Capability.Type}
	if wanted.Filesystem, err = filesystemFor(s.Capability, s.Volume, m); err != nil {
		return err
	}
	// Before, the type may have been open.
	if err := filesystem.CheckOptions(wanted.Filesystem, s.Capability.MountFlags); err != nil {
		return err
	}
	if _, err := image.Measure(b.imageOf(s.Volume)); err != nil {
		return backend.Damaged("volume", s.Volume, imageFile, err)
	}
	up, err := b.isStaged(s.Volume, wanted)
	if err != nil || up {
		return err
	}
	if err := b.writeRecord(s.Volume, wanted); err != nil {
		return b.classify("stage volume "+s.Volume.String(), err)
	}
	if err := b.bringUp(ctx, s, m, wanted); err != nil {
		err = errors.Join(err, b.bringDown(ctx, s.Volume, wanted))
		b.makeReserve(ctx)
		return b.classify("stage volume "+s.Volume.String(), err)
	}
	return nil
}

// CheckVolume implements backend.Particular.
func (b *Backend) CheckVolume(_ context.Context, id backend.ID, c backend.Capability) error {
	m, err := b.readVolume(id)
	if err != nil {
		return err
	}
	_, err = filesystemFor(c, id, m)
	return err
}

// filesystemFor returns the filesystem for the requested capability, or an error if the volume has
// another one.
func filesystemFor(c backend.Capability, id backend.ID, m volumeMetadata) (filesystem.Type, error) {
	if c.Type == backend.Block {
		return filesystem.Nothing, nil
	}
	asked, err := filesystem.Parse(c.FSType)
	if err != nil {
		return filesystem.Nothing, err
	}
	is := m.Filesystem
	if is == filesystem.Nothing {
		is = asked
	}
	if is == filesystem.Nothing {
		is = filesystem.Default
	}
	if asked != filesystem.Nothing && asked != is {
		return is, fault.Incompatible.Errorf("mount.fs_type %q: volume %q is made for %s", asked, id, is)
	}
	return is, nil
}

// isStaged reports whether the volume is staged completely as requested. An interrupted call has to
// be finished; a volume that is staged in another way is an error.
func (b *Backend) isStaged(id backend.ID, wanted record) (bool, error) {
	is, err := b.readRecord(id)
	if err != nil || is == nil {
		return false, err
	}
	if is.Path == "" {
		is.Path = wanted.Path
	}
	if is.Path != wanted.Path {
		return false, fault.InUse.Errorf("volume %q is staged at %s; unstage it there first", id, is.Path)
	}
	if *is != wanted {
		return false, fault.Incompatible.Errorf(
			"volume %q is staged at %s for access as %s %s, and asked for is %s %s",
			id,
			is.Path,
			is.Access,
			is.Filesystem,
			wanted.Access,
			wanted.Filesystem,
		)
	}
	device, err := b.deviceOf(id)
	if err != nil || device == nil {
		return false, err
	}
	if wanted.Access == backend.Block {
		return true, nil
	}
	return mountedAt(device, wanted.Path)
}

func mountedAt(device *loopdev.Device, path string) (bool, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	users, err := device.Users()
	return slices.Contains(users.Mounted, real), err
}

// bringUp does the steps of staging; each of them may have been done before.
func (b *Backend) bringUp(ctx context.Context, s backend.Staging, m volumeMetadata, r record) error {
	wishes, err := m.settings()
	if err != nil {
		return err
	}
	device, err := b.deviceOf(s.Volume)
	if err != nil {
		return err
	}
	if device == nil {
		if r.Access == backend.Mount {
			err = b.prepare(ctx, s.Volume, r.Filesystem, wishes)
		} else {
			// To undo it later would revert writes of the pod.
			err = b.settle(ctx, s.Volume, wishes)
		}
		if err != nil {
			return err
		}
		if device, err = b.attach(ctx, s.Volume, r.Access); err != nil {
			return err
		}
	}
	err = b.reserve.Do(func() error { return os.Mkdir(s.Path, stagingMode) })
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the staging path: %w", err)
	}
	if r.Access == backend.Block {
		return nil
	}
	return b.mountAt(device, s, r, wishes)
}

func (b *Backend) mountAt(device *loopdev.Device, s backend.Staging, r record, wishes settings) error {
	occupied, err := mountinfo.Mounted(s.Path)
	if err != nil {
		return fmt.Errorf("look at the staging path: %w", err)
	}
	if occupied {
		ours, err := mountedAt(device, s.Path)
		if err == nil && !ours {
			err = fault.InUse.Errorf("something else is mounted at the staging path %s; unmount it", s.Path)
		}
		if err != nil {
			return err
		}
	} else if err := filesystem.Mount(filesystem.Mounting{
		Type: r.Filesystem, Device: device.Path(), Path: s.Path,
		Discard: wishes.discard, Space: wishes.space(), Options: s.Capability.MountFlags,
	}); err != nil {
		return err
	}
	return b.growMounted(s.Volume, device, r)
}

// attach makes a device of the image and keeps it open.
func (b *Backend) attach(ctx context.Context, id backend.ID, access backend.AccessType) (*loopdev.Device, error) {
	lifetime := loopdev.UntilDetached
	if access == backend.Mount {
		lifetime = loopdev.UntilUnused
	}
	device, err := loopdev.Attach(ctx, b.imageOf(id), lifetime)
	if err != nil {
		return nil, err
	}
	b.hold(id, device)
	return device, nil
}

func (b *Backend) hold(id backend.ID, device *loopdev.Device) {
	b.devicesLock.Lock()
	defer b.devicesLock.Unlock()
	b.devices[id] = device
}

func (b *Backend) drop(id backend.ID) *loopdev.Device {
	b.devicesLock.Lock()
	defer b.devicesLock.Unlock()
	device := b.devices[id]
	delete(b.devices, id)
	return device
}

func (b *Backend) held(id backend.ID) *loopdev.Device {
	b.devicesLock.Lock()
	defer b.devicesLock.Unlock()
	return b.devices[id]
}

// deviceOf gives the device of a volume that has a record, nil when it has none. The caller has the
// lock of the volume: deviceOf keeps the device open, and the next holder of the lock may detach
// it. A device that another process detached is dropped. One whose image was removed is kept, since
// it may still be mounted.
func (b *Backend) deviceOf(id backend.ID) (*loopdev.Device, error) {
	inode, err := loopdev.InodeOf(b.imageOf(id))
	if device := b.held(id); device != nil && errors.Is(err, os.ErrNotExist) {
		return device, nil
	}
	if err != nil {
		return nil, err
	}
	if device := b.held(id); device != nil {
		if has, err := device.Inode(); err == nil && has == inode {
			return device, nil
		}
		_ = b.drop(id).Release()
	}
	device, err := loopdev.FindLike(inode, loopdev.Named(imageFile))
	if device != nil {
		b.hold(id, device)
	}
	return device, err
}

// devicePath gives the path of the device of a volume, "" when it has none. It is for read-only
// calls, which take no lock. It does not keep the device open, since that would delay a call that
// detaches it.
func (b *Backend) devicePath(id backend.ID) (path string, err error) {
	inode, err := loopdev.InodeOf(b.imageOf(id))
	removed := errors.Is(err, os.ErrNotExist)
	if err != nil && !removed {
		return "", err
	}
	if path := b.pathOfHeld(id, inode, removed); path != "" {
		return path, nil
	}
	if removed {
		return "", err
	}
	device, err := loopdev.FindLike(inode, loopdev.Named(imageFile))
	if err != nil || device == nil {
		return "", err
	}
	return device.Path(), device.Release()
}

// pathOfHeld locks the held device, so that it is not closed while its image is read.
func (b *Backend) pathOfHeld(id backend.ID, inode loopdev.Inode, removed bool) string {
	b.devicesLock.Lock()
	defer b.devicesLock.Unlock()
	device := b.devices[id]
	if device == nil {
		return ""
	}
	if has, err := device.Inode(); removed || (err == nil && has == inode) {
		return device.Path()
	}
	return ""
}

// Staged implements backend.Stager.
func (b *Backend) Staged(_ context.Context, id backend.ID, path string, access backend.AccessType) (string, error) {
	r, err := b.readRecord(id)
	if err != nil {
		return "", err
	}
	if r == nil || !r.isAt(path) || r.Access != access {
		return "", fault.Unready.Errorf(
			"volume %q is not staged at %s for access as %s; stage it there first",
			id,
			path,
			access,
		)
	}
	device, err := b.devicePath(id)
	if err != nil || device == "" {
		return "", errors.Join(fault.Unready.Errorf("volume %q has no loop device any more; stage it again", id), err)
	}
	if access == backend.Block {
		return device, nil
	}
	mounted, err := mountinfo.Mounted(path)
	if err != nil || !mounted {
		return "", errors.Join(
			fault.Unready.Errorf("volume %q is not mounted at %s any more; stage it again", id, path), err,
		)
	}
	return path, nil
}
