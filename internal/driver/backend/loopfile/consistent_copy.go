package loopfile

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/loopdev"
)

// copying is a copy of one volume.
type copying struct {
	volume backend.ID
	// to is the path of the copy.
	to     string
	source *image.Source
	// mounted is the mounted filesystem of a volume in use, and device that of a block volume in
	// use. A volume that is not in use has neither.
	mounted *filesystem.Mounted
	device  *loopdev.Device
}

// copyVolume copies the content that a volume has at one point in time, in use or
// not.
func (b *Backend) copyVolume(ctx context.Context, id backend.ID, to string) (image.Method, error) {
	return b.copyVolumes(ctx, []copying{{volume: id, to: to}})
}

// copyVolumes copies the content that all of them have at one point in time. They are
// different volumes. The order of their ids keeps two such calls from waiting
// for each other.
func (b *Backend) copyVolumes(ctx context.Context, all []copying) (image.Method, error) {
	slices.SortFunc(all, func(x, y copying) int { return strings.Compare(x.volume.String(), y.volume.String()) })
	inUse := false
	for i := range all {
		release, err := b.locks.lock(ctx, all[i].volume, "copy")
		if err != nil {
			return image.Full, err
		}
		defer release()
		if err := b.lookAtUse(ctx, &all[i]); err != nil {
			return image.Full, err
		}
		if all[i].mounted != nil {
			defer all[i].mounted.Close()
			inUse = true
		}
		if all[i].source, err = image.Open(b.imageOf(all[i].volume)); err != nil {
			return image.Full, err
		}
		defer all[i].source.Close()
	}
	for _, c := range all {
		if c.device == nil {
			continue
		}
		if len(all) > 1 {
			return image.Full, fault.InUse.Errorf(
				"volume %q is in use as a block device, and nothing can keep its pod from writing while the others "+
					"are copied; unstage it first",
				c.volume,
			)
		}
		return b.copyDevice(c)
	}
	if !inUse {
		return b.copyEach(ctx, all)
	}
	return b.copyFrozen(ctx, all)
}

// lookAtUse finds the mount or the device of a volume in use. The record is not enough: the stage
// can be half done or half undone, and its path can be on the root filesystem of the machine.
func (b *Backend) lookAtUse(ctx context.Context, c *copying) error {
	r, err := b.readRecord(c.volume)
	if err != nil {
		return err
	}
	var device *loopdev.Device
	if r != nil {
		device, err = b.deviceOf(c.volume)
	}
	switch {
	case err != nil:
		return err
	case device == nil:
		return b.settleUnused(ctx, c.volume)
	case r.Access == backend.Block:
		c.device = device
		return nil
	}
	c.mounted, err = openAnywhere(device, r.Path)
	if err != nil {
		return fault.InUse.Errorf("volume %q is in use, and what is mounted of it cannot be reached: %w", c.volume, err)
	}
	if c.mounted == nil {
		return device.Flush()
	}
	return nil
}

// settleUnused undoes an interrupted operation before a copy, since the copy would not have the
// mark of it.
func (b *Backend) settleUnused(ctx context.Context, id backend.ID) error {
	m, err := b.readVolume(id)
	if err != nil {
		return err
	}
	wishes, err := m.settings()
	if err != nil {
		return backend.Damaged("volume", id, volumeFile, err)
	}
	return b.settle(ctx, id, wishes)
}

// copyDevice copies a block volume in use. Its pod cannot be kept from writing, so the copy must be
// one that shares space, which is made in one step.
func (b *Backend) copyDevice(c copying) (image.Method, error) {
	if err := c.device.Flush(); err != nil {
		return image.Full, err
	}
	err := c.source.Share(c.to)
	if image.CannotShare(err) {
		return image.Full, fault.InUse.Errorf(
			"volume %q is in use as a block device, and this pool cannot copy it in one step (xfs and btrfs can); "+
				"unstage it first",
			c.volume,
		)
	}
	return image.Shared, err
}

// copyFrozen copies volumes while the mounted ones are frozen. Their pods wait, so there is a
// timeout, after which the pods can write again and the copy fails.
func (b *Backend) copyFrozen(ctx context.Context, all []copying) (method image.Method, err error) {
	if err := b.slow.refuse(all); err != nil {
		return image.Full, err
	}
	// Before the freeze, since much data can be in memory.
	for _, c := range all {
		if c.mounted == nil {
			continue
		}
		if err := errors.Join(ctx.Err(), c.mounted.Sync()); err != nil {
			return image.Full, err
		}
	}
	f, finish, err := b.beginFreeze(ctx)
	if err != nil {
		return image.Full, err
	}
	bounded, cancel := context.WithTimeout(ctx, b.config.FreezeBound)
	defer cancel()
	for _, c := range all {
		if c.mounted == nil || err != nil {
			continue
		}
		err = errors.Join(bounded.Err(), f.add(frozen{c.volume, c.mounted}))
	}
	if err == nil {
		method, err = b.copyEach(bounded, all)
	}
	cause, thawed := finish()
	switch {
	case errors.Is(cause, errStopped):
		err = errStopped
	case errors.Is(cause, errTooLong), ctx.Err() == nil && errors.Is(bounded.Err(), context.DeadlineExceeded):
		err = b.tooLong(all)
		if method == image.Full {
			b.slow.remember(all)
		}
	}
	return method, errors.Join(err, thawed)
}

func (b *Backend) tooLong(all []copying) error {
	var mounted []string
	for _, c := range all {
		if c.mounted != nil {
			mounted = append(mounted, c.volume.String())
		}
	}
	return fault.InUse.Errorf(
		"volume %q is in use, and to copy it takes longer than its pods may be kept waiting (%s); unstage it first, "+
			"or keep the volumes on xfs or btrfs, which copy in milliseconds",
		strings.Join(mounted, " "),
		b.config.FreezeBound,
	)
}

func (b *Backend) copyEach(ctx context.Context, all []copying) (method image.Method, err error) {
	for _, c := range all {
		if method, err = b.copyContent(ctx, c.source, c.to); err != nil {
			return method, err
		}
	}
	return method, nil
}
