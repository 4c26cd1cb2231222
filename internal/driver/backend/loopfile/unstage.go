package loopfile

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/loopdev"
)

// Unstage implements backend.Stager.
func (b *Backend) Unstage(ctx context.Context, id backend.ID, path string) error {
	release, err := b.locks.tryLock(id, "unstage")
	if err != nil {
		return err
	}
	defer release()
	r, err := b.readRecord(id)
	if err != nil || r == nil || !r.isAt(path) {
		return err
	}
	r.Path = path
	return b.classify("unstage volume "+id.String(), b.bringDown(ctx, id, *r))
}

// bringDown undoes bringUp, also one that was interrupted.
func (b *Backend) bringDown(ctx context.Context, id backend.ID, r record) error {
	device, err := b.deviceOf(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if device != nil {
		if err := release(device, r); err != nil {
			return err
		}
		// Dropped first: read-only calls use a held device, and must not use one
		// that is being closed. A device that could not be flushed stays attached
		// for the next attempt.
		b.drop(id)
		if err := detach(context.WithoutCancel(ctx), device); err != nil {
			b.hold(id, device)
			return err
		}
	}
	return b.removeRecord(id)
}

// release unmounts the staging path if nothing else uses the device.
func release(device *loopdev.Device, r record) error {
	real, err := filepath.EvalSymlinks(r.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	users, err := device.Users()
	if err != nil {
		return err
	}
	others := users.MountedElsewhere(real)
	staged := slices.Contains(users.Mounted, real)
	for what, paths := range map[string][]string{
		"its filesystem is mounted at": others, "its device is published at": users.Bound,
		"its device is the image of": users.Stacked,
	} {
		if len(paths) > 0 {
			return fault.InUse.Errorf("%s %s", what, paths[0])
		}
	}
	if !staged {
		return nil
	}
	return filesystem.Unmount(real)
}

const (
	// lingering bounds how long the kernel's own users of a device, such as
	// udev looking at it, are waited for.
	lingering      = 500 * time.Millisecond
	lookAgainAfter = 10 * time.Millisecond
)

// detach waits until the device is detached: the image must not be deleted or attached again while
// a process can still write to it.
func detach(ctx context.Context, device *loopdev.Device) error {
	inode, err := device.Inode()
	if errors.Is(err, fs.ErrNotExist) {
		return device.Release()
	}
	if err != nil {
		return err
	}
	if err := device.Detach(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lingering)
	defer cancel()
	for loopdev.Attached(device.Path(), inode) {
		select {
		case <-ctx.Done():
			return fault.InUse.Errorf("%s stays attached: %s", device.Path(), device.HeldBy())
		case <-time.After(lookAgainAfter):
		}
	}
	return nil
}
