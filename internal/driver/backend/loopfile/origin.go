package loopfile

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// origin is what a new volume begins with; the zero value is nothing.
type origin struct {
	// what names it in messages.
	what   string
	source backend.Source
	path   string
	bytes  int64
	// holds is the filesystem that is in it.
	holds filesystem.Type
}

// originOf reads the source.
func (b *Backend) originOf(source backend.Source) (origin, error) {
	o := origin{source: source}
	switch {
	case source.IsNothing():
		return o, nil
	case source.Snapshot != backend.ID{}:
		if _, err := b.readSnapshot(source.Snapshot); err != nil {
			return o, err
		}
		o.what = fmt.Sprintf("a copy of snapshot %q", source.Snapshot)
		o.path = filepath.Join(b.snapshotDir(source.Snapshot), imageFile)
	default:
		if _, err := b.readVolume(source.Volume); err != nil {
			return o, err
		}
		o.what = fmt.Sprintf("a copy of volume %q", source.Volume)
		o.path = b.imageOf(source.Volume)
	}
	space, err := image.Measure(o.path)
	if err != nil {
		return o, fault.Internal.Errorf("the image of %s is damaged: %w", o.what, err)
	}
	content, err := filesystem.Probe(o.path)
	if err != nil {
		return o, err
	}
	o.bytes, o.holds = space.Size, content.Type
	return o, nil
}

// fillFrom copies the origin and gives the copy its own size and identity.
func (b *Backend) fillFrom(ctx context.Context, path string, m *volumeMetadata, p plan) (image.Method, error) {
	method, err := b.copyOrigin(ctx, p.origin, path)
	if err != nil {
		return method, err
	}
	logMethod(ctx, method, p.origin.what)
	content, err := filesystem.Probe(path)
	if err != nil {
		return method, err
	}
	if m.Filesystem, err = agree(*m, content.Type, p.origin.what); err != nil {
		return method, err
	}
	if err := identify(ctx, path, m, content); err != nil {
		return method, err
	}
	if err := image.Resize(path, p.bytes); err != nil {
		return method, err
	}
	return method, image.Sync(path)
}

// identify gives the filesystem in a copy a uuid of its own. It does not change a copy that is only
// used as a block device, which must equal its source.
func identify(ctx context.Context, path string, m *volumeMetadata, content filesystem.Content) error {
	if m.Filesystem == filesystem.Nothing {
		return nil
	}
	err := filesystem.NewIdentity(ctx, content, path)
	// ext4 mounts two with one uuid, btrfs does not on every kernel.
	if err == nil || content.Type == filesystem.Btrfs {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("The copy keeps the uuid of its source", "copy", m.Name, "cause", err.Error())
	return nil
}

// agree sets the filesystem of a copy to that of its source. A request for another one is an error,
// a request without one is not.
func agree(m volumeMetadata, found filesystem.Type, what string) (filesystem.Type, error) {
	if found == filesystem.Nothing || m.Filesystem == filesystem.Nothing || found == m.Filesystem {
		return m.Filesystem, nil
	}
	for _, c := range m.Capabilities {
		if c.FSType != "" {
			return found, fault.Invalid.Errorf(
				"mount.fs_type %.128q: %s holds %s; ask for that, or for none", c.FSType, what, found,
			)
		}
	}
	return found, nil
}

func (b *Backend) copyOrigin(ctx context.Context, o origin, path string) (image.Method, error) {
	if o.source.Volume != (backend.ID{}) {
		return b.copyVolume(ctx, o.source.Volume, path)
	}
	source, err := image.Open(o.path)
	if err != nil {
		return image.Full, err
	}
	defer source.Close()
	return b.copyContent(ctx, source, path)
}

// copyContent shares space where the pool can, and otherwise asks for it first.
func (b *Backend) copyContent(ctx context.Context, source *image.Source, to string) (image.Method, error) {
	err := source.Share(to)
	if !image.CannotShare(err) {
		return image.Shared, err
	}
	bytes, err := source.Data(ctx)
	if err != nil {
		return image.Full, err
	}
	booking, err := b.space.Book(bytes)
	if err != nil {
		return image.Full, err
	}
	defer booking.Release()
	return image.Full, source.CopyFully(ctx, to, booking.Write)
}

func logMethod(ctx context.Context, method image.Method, what string) {
	if method == image.Full {
		logr.FromContextOrDiscard(ctx).
			Info("Copied every byte: the pool cannot share space between files, xfs and btrfs can", "made", what)
	}
}
