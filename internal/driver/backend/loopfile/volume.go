package loopfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// ownMode keeps the other users of the machine out.
const ownMode = 0o700

// plan is a validated request.
type plan struct {
	settings   settings
	filesystem filesystem.Type
	bytes      int64
	origin     origin
}

// Create implements backend.Volumes.
func (b *Backend) Create(ctx context.Context, r backend.Request) (backend.Volume, error) {
	if err := ctx.Err(); err != nil {
		return backend.Volume{}, err
	}
	if r.Source.IsNothing() {
		return b.create(ctx, r)
	}
	return inBackground(
		ctx,
		b,
		creating,
		r.ID,
		r,
		func(ctx context.Context) (backend.Volume, error) { return b.create(ctx, r) },
	)
}

func (b *Backend) create(ctx context.Context, r backend.Request) (backend.Volume, error) {
	release, err := b.locks.tryLock(r.ID, "create")
	if err != nil {
		return backend.Volume{}, err
	}
	defer release()
	p, err := b.plan(r)
	if err != nil {
		return backend.Volume{}, err
	}
	if err := b.reserve.Admit(); err != nil {
		return backend.Volume{}, classify("create volume "+r.ID.String(), err)
	}
	if err := b.promise(b.volumeEntry(r.ID), p.bytes, p.settings); err != nil {
		return backend.Volume{}, err
	}
	m := metadataOf(r, p.filesystem)
	if r.Asked < p.bytes {
		m.Asked = r.Asked
	}
	if err := b.build(ctx, r.ID, m, p); err != nil {
		b.promises.Remove(b.volumeEntry(r.ID))
		return backend.Volume{}, classify("create volume "+r.ID.String(), err)
	}
	b.account(b.volumeEntry(r.ID))
	return m.volume(r.ID, p.bytes)
}

// plan validates a request before any file is created.
func (b *Backend) plan(r backend.Request) (plan, error) {
	var p plan
	var err error
	if p.settings, err = settingsOf(r.Parameters, r.Mutable); err != nil {
		return p, err
	}
	if p.filesystem, err = filesystemOf(r.Capabilities); err != nil {
		return p, err
	}
	if p.origin, err = b.originOf(r.Source); err != nil {
		return p, err
	}
	if p.filesystem != filesystem.Nothing {
		if err := filesystem.Present(p.filesystem); err != nil {
			return p, err
		}
	}
	what, minimum := leastOf(p.filesystem)
	if p.origin.bytes > 0 { //nolint:nestif // a copy has its own rules of size
		what, minimum = p.origin.what, p.origin.bytes
		if r.Size.Required == 0 {
			r.Size.Required = minimum
		}
		if r.Size.Required < minimum { // a copy cannot be smaller than its source
			return p, fault.OutOfRange.Errorf(
				"capacity_range: %d bytes are too small for %s; ask for at least %d (%d Mi)",
				r.Size.Required,
				what,
				minimum,
				(minimum+mebi-1)/mebi,
			)
		}
		if p.filesystem != filesystem.Nothing {
			if r.Size, err = whenGrown(r.Size, p.origin.holds, minimum); err != nil {
				return p, err
			}
		}
	}
	p.bytes, err = chooseSize(r.Size, what, minimum)
	return p, err
}

// build makes the volume in temp and renames it, so that it appears in one step.
func (b *Backend) build(ctx context.Context, id backend.ID, m volumeMetadata, p plan) error {
	dir, err := os.MkdirTemp(b.temp, "create-*")
	if err != nil {
		return err
	}
	err = b.fill(ctx, dir, &m, p)
	if err == nil {
		err = backend.WriteJSON(filepath.Join(dir, volumeFile), dir, m)
	}
	if err == nil {
		err = durable.Rename(dir, b.volumeDir(id))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return nil
}

func (b *Backend) fill(ctx context.Context, dir string, m *volumeMetadata, p plan) error {
	path, method := filepath.Join(dir, imageFile), image.Full
	var err error
	if p.origin.what == "" {
		err = image.Create(path, p.bytes)
	} else {
		method, err = b.fillFrom(ctx, path, m, p)
	}
	if err != nil || !p.settings.thick {
		return err
	}
	if method == image.Shared {
		// Reserves space for the whole image, also for parts that are shared with the source.
		return b.allocateMore(path, p.bytes, p.bytes)
	}
	return b.allocate(path)
}

// allocate reserves the missing space of an image in the pool.
func (b *Backend) allocate(path string) error {
	space, err := image.Measure(path)
	if err != nil {
		return err
	}
	return b.allocateMore(path, space.Size, space.Size-space.Allocated)
}

// allocateMore reserves the missing space of an image of some size. It checks for room first: the
// kernel would fill the pool before it fails, and other volumes would find the pool full meanwhile.
func (b *Backend) allocateMore(path string, bytes, lacks int64) error {
	booking, err := b.space.Book(max(0, lacks))
	if err != nil {
		return fault.KindOf(err).Errorf("%s: \"thick\": %w", provisioningKey, err)
	}
	defer booking.Release()
	return image.Allocate(path, bytes)
}

// Get implements backend.Volumes.
func (b *Backend) Get(_ context.Context, id backend.ID) (backend.Volume, error) {
	m, space, err := b.look(id)
	if err != nil {
		return backend.Volume{}, err
	}
	v, err := m.volume(id, space.Size)
	if err != nil {
		return backend.Volume{}, backend.Damaged("volume", id, volumeFile, err)
	}
	return v, nil
}

// look reads the metadata and the space of a volume. It takes no lock, so between two reads the
// volume can be deleted, and another one with its name created.
func (b *Backend) look(id backend.ID) (m volumeMetadata, space image.Space, err error) {
	for range 3 {
		if m, err = b.readVolume(id); err != nil {
			return m, space, err
		}
		if space, err = image.Measure(b.imageOf(id)); err == nil {
			return m, space, nil
		}
		if err = backend.Damaged("volume", id, imageFile, err); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return m, space, err
}

// List implements backend.Lister.
func (b *Backend) List(context.Context) ([]backend.ID, error) { return idsIn(b.volumes) }

// idsIn skips names that are no id: they were put there by hand, or are the
// lost+found of a filesystem.
func idsIn(dir string) ([]backend.ID, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, fault.Internal.Errorf("list %s: %w", dir, err)
	}
	ids := make([]backend.ID, 0, len(entries))
	for _, entry := range entries {
		if id, err := backend.ParseID(entry.Name()); err == nil && entry.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Delete implements backend.Volumes. It does not read the metadata: a damaged
// volume must be removable.
func (b *Backend) Delete(ctx context.Context, id backend.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	release, err := b.locks.tryLock(id, "delete")
	if err != nil {
		return err
	}
	defer release()
	if !exists(b.volumeDir(id)) {
		return nil
	}
	if r, err := b.readRecord(id); err != nil || r != nil {
		if err != nil {
			return err
		}
		return fault.InUse.Errorf("volume %q is staged at %s; unstage it first", id, r.where())
	}
	if err := b.discard(ctx, b.volumeDir(id), volumeFile); err != nil {
		return classify("delete volume "+id.String(), err)
	}
	b.promises.Remove(b.volumeEntry(id))
	return nil
}

// discard removes a volume, snapshot or group. The next start removes the rest of a failed removal.
func (b *Backend) discard(ctx context.Context, dir, metadata string) error {
	left, err := b.reserve.Discard(dir, b.trash, metadata)
	if err != nil {
		return err
	}
	if left != nil {
		logr.FromContextOrDiscard(ctx).
			Error(left, "Deleted, but the files stay until the next start", "path", b.trash)
	}
	b.makeReserve(ctx)
	return nil
}

func (b *Backend) makeReserve(ctx context.Context) {
	if _, err := b.reserve.Make(); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The reserve for deletions in a full pool is missing")
	}
}

// removeEmpty removes a file; one that is not there is no error.
func removeEmpty(dir string) error {
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
