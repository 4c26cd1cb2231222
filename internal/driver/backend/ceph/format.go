package ceph

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// prepareImage makes sure that there is a filesystem on a device, and says
// which. It never writes over anything but what an interrupted mkfs left here.
func (b *Backend) prepareImage(
	ctx context.Context,
	s backend.Staging,
	r stagedRecord,
	device string,
	mounted bool,
) (filesystem.Type, error) {
	wanted, err := filesystem.Parse(s.Capability.FSType)
	if err != nil {
		return wanted, err
	}
	content, err := filesystem.Probe(device)
	if err != nil {
		return wanted, fault.Internal.Errorf("look at the content of volume %q: %w", s.Volume, err)
	}
	has := content.Type != filesystem.Nothing && !r.Formatting
	switch {
	case has && wanted != filesystem.Nothing && content.Type != wanted:
		return wanted, fault.Incompatible.Errorf(
			"volume %q holds %s and is to be mounted as %s; ask for %s",
			s.Volume,
			content.Type,
			wanted,
			content.Type,
		)
	case has && (mounted || s.Capability.Mode.ReadsOnly()):
		return content.Type, nil
	case s.Capability.Mode.ReadsOnly():
		return wanted, fault.Incompatible.Errorf(
			"volume %q has no filesystem and is to be mounted for reading only; mount it for writing on a node first",
			s.Volume,
		)
	case has:
		return content.Type, b.repair(ctx, s.Volume, device)
	case wanted == filesystem.Nothing:
		wanted = filesystem.Default
	}
	if !r.Formatting {
		if err := b.mustBeBlank(ctx, s.Volume, wanted, device); err != nil {
			return wanted, err
		}
	}
	return wanted, b.format(ctx, s.Volume, r, wanted, device)
}

func (b *Backend) mustBeBlank(ctx context.Context, id backend.ID, wanted filesystem.Type, device string) error {
	blank, err := b.isBlank(ctx, id, device)
	if err == nil && !blank {
		err = fault.Incompatible.Errorf(
			"volume %q holds data that is no %s; it was used as a block device, or is damaged. It is not formatted; use it as a block device, or delete it",
			id,
			wanted,
		)
	}
	return err
}

// format syncs the mark to disk before mkfs starts, and syncs the image before it removes the mark.
func (b *Backend) format(ctx context.Context, id backend.ID, r stagedRecord, t filesystem.Type, device string) error {
	o, err := volumeOf(id)
	if err != nil {
		return err
	}
	pool, err := b.pool(ctx, o.Place)
	if err != nil {
		return err
	}
	r.Formatting = true
	if err := b.writeStaged(id, r); err != nil {
		return err
	}
	if err := pool.BeginFormat(ctx, o); err != nil {
		return err
	}
	if err := filesystem.Make(ctx, t, device, filesystem.Sparse); err != nil {
		return fault.Internal.Errorf("make the filesystem of volume %q: %w", id, err)
	}
	if err := flush(device); err != nil {
		return err
	}
	if err := pool.EndFormat(ctx, o); err != nil {
		return err
	}
	r.Formatting = false
	return b.writeStaged(id, r)
}

// isHalfFormatted reads the mark in the image. It skips readers, which do not need it and may lack
// the permission.
func (b *Backend) isHalfFormatted(ctx context.Context, s backend.Staging, o handle.Object) (bool, error) {
	if s.Capability.Mode.ReadsOnly() {
		return false, nil
	}
	pool, err := b.pool(ctx, o.Place)
	if err != nil {
		return false, err
	}
	return pool.IsHalfFormatted(ctx, o)
}

// giveUpFormat removes the mark of an interrupted mkfs from an image that is used as a block device
// now. Its data must not be taken for leftovers of mkfs.
func (b *Backend) giveUpFormat(
	ctx context.Context,
	id backend.ID,
	o handle.Object,
	r stagedRecord,
	device string,
) error {
	if !r.Formatting {
		return nil
	}
	pool, err := b.pool(ctx, o.Place)
	if err != nil {
		return err
	}
	if err := eraseUnfinished(device); err != nil {
		return err
	}
	if err := pool.EndFormat(ctx, o); err != nil {
		return err
	}
	r.Formatting = false
	return b.writeStaged(id, r)
}

func flush(device string) error {
	file, err := os.Open(device)
	if err != nil {
		return fault.Internal.Errorf("open the device: %w", err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fault.Internal.Errorf("write what is in memory for %s: %w", device, err)
	}
	return nil
}

// eraseUnfinished makes an image blank again on which an mkfs did not end, so
// that any node can format it.
func eraseUnfinished(device string) error {
	file, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return fault.Internal.Errorf("open the device: %w", err)
	}
	_, err = file.Write(make([]byte, looked))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil && !errors.Is(err, unix.ENOSPC) {
		return fault.Internal.Errorf("erase what an interrupted mkfs wrote: %w", err)
	}
	return nil
}

// looked is how much of a device is erased: all filesystems and partition
// tables have something there.
const looked = 4 << 20

// isBlank reads all written parts of an image; a new image has none.
func (b *Backend) isBlank(ctx context.Context, id backend.ID, device string) (bool, error) {
	o, err := volumeOf(id)
	if err != nil {
		return false, err
	}
	pool, err := b.pool(ctx, o.Place)
	if err != nil {
		return false, err
	}
	extents, err := pool.Extents(ctx, o)
	if err != nil {
		return false, err
	}
	file, err := os.Open(device)
	if err != nil {
		return false, fault.Internal.Errorf("open the device: %w", err)
	}
	defer file.Close()
	for _, e := range extents {
		if zero, err := isZero(io.NewSectionReader(file, e.Offset, e.Length)); err != nil || !zero {
			return false, err
		}
	}
	return true, nil
}

func isZero(content io.Reader) (bool, error) {
	part := make([]byte, 1<<20)
	for {
		n, err := content.Read(part)
		for _, b := range part[:n] {
			if b != 0 {
				return false, nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			return false, fault.Internal.Errorf("read the device: %w", err)
		}
	}
}

// repair repairs a damaged filesystem, and expands one that cannot be expanded while it is mounted.
func (b *Backend) repair(ctx context.Context, id backend.ID, device string) error {
	if err := b.undoResize(ctx, id, device); err != nil {
		return err
	}
	c, err := filesystem.Probe(device)
	if err != nil {
		return fault.Internal.Errorf("look at the content of volume %q: %w", id, err)
	}
	size, err := sizeOf(device)
	if err != nil {
		return err
	}
	work := filesystem.BeforeMount(c, size)
	if work == nil {
		return nil
	}
	if err := b.undoably(ctx, id, device, work); err != nil {
		return fault.Internal.Errorf("%w", filesystem.CannotCheck("the image", err))
	}
	return nil
}

// undoably keeps the overwritten data in an undo file until the programs have succeeded.
func (b *Backend) undoably(ctx context.Context, id backend.ID, device string, do filesystem.Work) error {
	if err := do(ctx, device, b.undoPath(id)); err != nil {
		return errors.Join(err, b.undoResize(context.WithoutCancel(ctx), id, device))
	}
	if err := flush(device); err != nil {
		return err
	}
	return b.forgetUndo(id)
}

func (b *Backend) undoPath(id backend.ID) string { return filepath.Join(b.stagedDir(id), "undo") }

// forgetUndo also drops a file from before the image was mapped: another node
// may have written to it since.
func (b *Backend) forgetUndo(id backend.ID) error {
	if err := durable.Remove(b.undoPath(id)); err != nil {
		return fault.Internal.Errorf("remove what is kept of an interrupted resize: %w", err)
	}
	return nil
}

// undoResize takes back a resize2fs that did not end well while the image was
// mapped as it is now.
func (b *Backend) undoResize(ctx context.Context, id backend.ID, device string) error {
	if _, err := os.Stat(b.undoPath(id)); err != nil {
		return nil //nolint:nilerr // There is nothing to undo.
	}
	if err := filesystem.Undo(ctx, device, b.undoPath(id)); err != nil {
		return fault.Internal.Errorf("take back an interrupted resize of volume %q: %w", id, err)
	}
	if err := flush(device); err != nil {
		return err
	}
	return b.forgetUndo(id)
}

// growMounted lets a mounted filesystem fill its device, and says how large
// that is.
func growMounted(device, path string) (bytes int64, err error) {
	if bytes, err = sizeOf(device); err != nil {
		return 0, err
	}
	return bytes, filesystem.Fill(device, path, bytes)
}

// sizeOf is the size of a device.
func sizeOf(device string) (int64, error) {
	file, err := os.Open(device)
	if err != nil {
		return 0, fault.Internal.Errorf("open the device: %w", err)
	}
	defer file.Close()
	bytes, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, fault.Internal.Errorf("measure %s: %w", device, err)
	}
	return bytes, nil
}
