package loopfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// finding is the state of an image before it is mounted.
type finding struct {
	blank   bool
	content filesystem.Content
}

// mustMake reports whether to make a filesystem, which is only on a blank image.
func mustMake(f finding, wanted filesystem.Type) (bool, error) {
	switch {
	case f.content.Type == wanted:
		return false, nil
	case f.content.Type != filesystem.Nothing:
		return false, fault.Incompatible.Errorf(
			"it holds %s and is to be mounted as %s; ask for %s",
			f.content.Type,
			wanted,
			f.content.Type,
		)
	case f.blank:
		return true, nil
	default:
		return false, fault.Incompatible.Errorf(
			"it holds data that is no %s; it was used as a block device, or is damaged. It is not formatted; use it "+
				"as a block device, or delete it",
			wanted,
		)
	}
}

// prepare makes sure that an image that is not attached can be mounted.
func (b *Backend) prepare(ctx context.Context, id backend.ID, wanted filesystem.Type, wishes settings) error {
	if err := b.settle(ctx, id, wishes); err != nil {
		return err
	}
	f, err := b.find(ctx, id)
	if err != nil {
		return err
	}
	makes, err := mustMake(f, wanted)
	if err != nil {
		return err
	}
	if makes {
		return b.format(ctx, id, wanted, wishes)
	}
	return b.ready(ctx, id, f.content)
}

func (b *Backend) find(ctx context.Context, id backend.ID) (f finding, err error) {
	if f.content, err = filesystem.Probe(b.imageOf(id)); err != nil || f.content.Type != filesystem.Nothing {
		return f, err
	}
	f.blank, err = image.IsBlank(ctx, b.imageOf(id))
	return f, err
}

func (b *Backend) formattingPath(id backend.ID) string {
	return filepath.Join(b.volumeDir(id), formattingFile)
}

func (b *Backend) undoPath(id backend.ID) string { return filepath.Join(b.volumeDir(id), undoFile) }

// settle undoes an interrupted operation inside an image that is not attached: after an mkfs it
// makes the image blank again, and it reverts the expansion of an ext4.
func (b *Backend) settle(ctx context.Context, id backend.ID, wishes settings) error {
	path, log := b.imageOf(id), logr.FromContextOrDiscard(ctx).WithValues("volume", id.String())
	if mark := b.formattingPath(id); exists(mark) {
		log.Info("An interrupted mkfs is undone")
		err := image.Erase(path)
		if err == nil && wishes.thick {
			err = b.allocate(path)
		}
		if err = errors.Join(err, image.Sync(path)); err != nil {
			return err
		}
		return durable.Remove(mark)
	}
	if undo := b.undoPath(id); exists(undo) {
		log.Info("An interrupted growing of the filesystem is undone")
		return b.undo(ctx, id, undo)
	}
	return nil
}

// undo first stores the size of the image in a file: e2undo may truncate the image to the size of
// the filesystem, and can be interrupted too.
func (b *Backend) undo(ctx context.Context, id backend.ID, undo string) error {
	path, kept := b.imageOf(id), filepath.Join(b.volumeDir(id), sizeFile)
	space, err := image.Measure(path)
	if err != nil {
		return err
	}
	size := space.Size
	var earlier int64
	// One that is larger is of an earlier attempt.
	if err := backend.ReadJSON(kept, &earlier); err == nil {
		size = max(size, earlier)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := backend.WriteJSON(kept, b.temp, size); err != nil {
		return err
	}
	if err := filesystem.Undo(ctx, path, undo); err != nil {
		return fmt.Errorf(
			"the filesystem was being grown and is damaged: %w; run e2fsck on %s and remove %s",
			err,
			path,
			undo,
		)
	}
	if err := errors.Join(image.Resize(path, size), image.Sync(path)); err != nil {
		return err
	}
	return errors.Join(durable.Remove(kept), durable.Remove(undo))
}

// format syncs the mark to disk before mkfs starts, and syncs the image before it removes the mark.
// The removal must be durable before any other write: if the mark came back after a power loss, the
// volume would be erased.
func (b *Backend) format(ctx context.Context, id backend.ID, t filesystem.Type, wishes settings) error {
	path, mark := b.imageOf(id), b.formattingPath(id)
	if err := b.reserve.Admit(); err != nil {
		return err
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return err
	}
	if err := durable.SyncDir(filepath.Dir(mark)); err != nil {
		return err
	}
	if err := filesystem.Make(ctx, t, path, wishes.space()); err != nil {
		return fmt.Errorf("make the filesystem: %w", err)
	}
	if err := image.Sync(path); err != nil {
		return err
	}
	return durable.Remove(mark)
}

// ready repairs a damaged filesystem, and expands one that cannot be expanded while it is mounted.
func (b *Backend) ready(ctx context.Context, id backend.ID, c filesystem.Content) error {
	path := b.imageOf(id)
	space, err := image.Measure(path)
	if err != nil {
		return err
	}
	work := filesystem.BeforeMount(c, space.Size)
	if work == nil {
		return nil
	}
	if err := work(ctx, path, b.undoPath(id)); err != nil {
		return filesystem.CannotCheck(path, err)
	}
	if err := image.Sync(path); err != nil {
		return err
	}
	return durable.Remove(b.undoPath(id))
}
