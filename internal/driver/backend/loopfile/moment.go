package loopfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/filesystem"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// copying is one volume that is copied.
type copying struct {
	volume backend.ID
	// to is the path of the copy.
	to     string
	source *image.Source
	// staged is nil for a volume that is not in use.
	staged *record
}

// copyVolume copies the content that a volume has at one moment, in use or
// not.
func (b *Backend) copyVolume(ctx context.Context, id backend.ID, to string) (image.Way, error) {
	return b.copyVolumes(ctx, []copying{{volume: id, to: to}})
}

// copyVolumes copies the content that all of them have at one moment. They are
// different volumes. The order of their ids keeps two such calls from waiting
// for each other.
func (b *Backend) copyVolumes(ctx context.Context, all []copying) (image.Way, error) {
	slices.SortFunc(all, func(x, y copying) int { return strings.Compare(x.volume.String(), y.volume.String()) })
	for i := range all {
		release, err := b.turns.await(ctx, all[i].volume, "copy")
		if err != nil {
			return image.Full, err
		}
		defer release()
		if all[i].staged, err = b.readRecord(all[i].volume); err != nil {
			return image.Full, err
		}
		if all[i].staged == nil {
			if err := b.settleUnused(ctx, all[i].volume); err != nil {
				return image.Full, err
			}
		}
		if all[i].source, err = image.Open(b.imageOf(all[i].volume)); err != nil {
			return image.Full, err
		}
		defer all[i].source.Close()
	}
	for _, c := range all {
		if c.staged == nil || c.staged.Access != backend.Block {
			continue
		}
		if len(all) > 1 {
			return image.Full, fault.InUse.Errorf("volume %q is in use as a block device, and nothing can keep its pod from writing while the others are copied; unstage it first", c.volume)
		}
		return b.copyDevice(c)
	}
	return b.copyFrozen(ctx, all)
}

// settleUnused keeps what an interrupted call left out of a copy, which would
// not have the marks that tell of it.
func (b *Backend) settleUnused(ctx context.Context, id backend.ID) error {
	m, err := b.readVolume(id)
	if err != nil {
		return err
	}
	wishes, err := m.settings()
	if err != nil {
		return damaged("volume", id, volumeFile, err)
	}
	return b.settle(ctx, id, wishes)
}

// copyDevice copies a block volume in use. Nothing can keep its pod from
// writing, but a copy that shares space is made in one step.
func (b *Backend) copyDevice(c copying) (image.Way, error) {
	device, err := b.deviceOf(c.volume)
	if err != nil {
		return image.Full, err
	}
	if device != nil {
		if err := device.Flush(); err != nil {
			return image.Full, err
		}
	}
	err = c.source.Share(c.to)
	if image.CannotShare(err) {
		return image.Full, fault.InUse.Errorf("volume %q is in use as a block device, and this pool cannot copy it in one step (xfs and btrfs can); unstage it first", c.volume)
	}
	return image.Shared, err
}

// copyFrozen copies volumes of which those that are mounted must not change
// meanwhile. Their pods wait, so there is a bound on the time: after that they
// go on, and there is no copy.
func (b *Backend) copyFrozen(ctx context.Context, all []copying) (way image.Way, err error) {
	frozen, err := b.freeze(all)
	if err == nil && len(frozen) > 0 {
		bounded, cancel := context.WithTimeout(ctx, b.config.FreezeBound)
		defer cancel()
		var late atomic.Bool
		watch := time.AfterFunc(b.config.FreezeBound, func() {
			late.Store(true)
			if err := b.thaw(frozen); err != nil {
				logr.FromContextOrDiscard(ctx).Error(err, "A freeze that took too long could not be undone")
			}
		})
		way, err = copyEach(bounded, all)
		watch.Stop()
		if late.Load() || errors.Is(bounded.Err(), context.DeadlineExceeded) {
			err = fault.InUse.Errorf("volume %q is in use, and to copy it takes longer than its pods may be kept waiting (%s); unstage it first, or keep the volumes on xfs or btrfs, which copy in milliseconds", frozen[0].volume, b.config.FreezeBound)
		}
	} else if err == nil {
		way, err = copyEach(ctx, all)
	}
	return way, errors.Join(err, b.thaw(frozen))
}

func copyEach(ctx context.Context, all []copying) (way image.Way, err error) {
	for _, c := range all {
		if way, err = c.source.Copy(ctx, c.to); err != nil {
			return way, err
		}
	}
	return way, nil
}

// freeze gives what it froze also when it fails. A mark on disk comes first,
// so that the next start can undo a freeze whose program was killed.
func (b *Backend) freeze(all []copying) (frozen []copying, err error) {
	for _, c := range all {
		if c.staged == nil {
			continue
		}
		mark := filepath.Join(b.frozen, c.volume.String())
		if err := os.WriteFile(mark, []byte(c.staged.Path), 0o600); err != nil {
			return frozen, err
		}
		if err := filesystem.Freeze(c.staged.Path); err != nil {
			return frozen, errors.Join(err, removeEmpty(mark))
		}
		frozen = append(frozen, c)
	}
	return frozen, nil
}

// thaw may be called twice.
func (b *Backend) thaw(frozen []copying) error {
	var failures []error
	for _, c := range frozen {
		err := filesystem.Thaw(c.staged.Path)
		if err == nil {
			err = removeEmpty(filepath.Join(b.frozen, c.volume.String()))
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// thawAll undoes the freezes that a killed predecessor left.
func (b *Backend) thawAll(ctx context.Context) error {
	entries, err := os.ReadDir(b.frozen)
	if err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx)
	for _, entry := range entries {
		mark := filepath.Join(b.frozen, entry.Name())
		path, err := os.ReadFile(mark)
		if err == nil {
			err = filesystem.Thaw(string(path))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			log.Error(err, "A freeze of an earlier run could not be undone; thaw it with fsfreeze --unfreeze", "path", string(path))
			continue
		}
		log.Info("A freeze of an earlier run was undone", "path", string(path))
		if err := removeEmpty(mark); err != nil {
			return err
		}
	}
	return nil
}
