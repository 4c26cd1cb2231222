package directory

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
)

const (
	// ownMode gives other users of the machine no access. Therefore dataMode is safe.
	ownMode = 0o700
	// dataMode is for the pod, whose user id is not known here and may be
	// any: kubelet gives its emptyDir volumes the same. There is no sticky
	// bit because two containers of one pod may run as different users and
	// must be able to remove each other's files.
	dataMode = 0o777
)

// Create implements backend.Volumes.
func (b *Backend) Create(ctx context.Context, r backend.Request) (backend.Volume, error) {
	if err := ctx.Err(); err != nil {
		return backend.Volume{}, err
	}
	volume := backend.Volume{
		ID:            r.ID,
		Name:          r.Name,
		CapacityBytes: chooseSize(r.Size),
		Capabilities:  r.Capabilities,
		Parameters:    r.Parameters,
	}
	if err := b.reserve.Admit(); err != nil {
		return backend.Volume{}, fault.KindOf(err).Errorf("create volume %s: %w", r.ID, err)
	}
	if err := b.build(volume); err != nil {
		return backend.Volume{}, classify("create volume "+r.ID.String(), err)
	}
	return volume, nil
}

// chooseSize returns the required size. Without one the volume has no size, since no size is
// enforced.
func chooseSize(size backend.Range) int64 {
	if size.Required > 0 {
		return size.Required
	}
	return size.Limit
}

// build makes the volume in temp and renames it, so that it appears in one step.
func (b *Backend) build(v backend.Volume) error {
	dir, err := os.MkdirTemp(b.temp, "create-*")
	if err != nil {
		return err
	}
	err = b.fill(dir, v)
	if err == nil {
		err = durable.Rename(dir, b.path(v.ID))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return nil
}

func (b *Backend) fill(dir string, v backend.Volume) error {
	data := filepath.Join(dir, dataDir)
	if err := os.Mkdir(data, ownMode); err != nil {
		return err
	}
	// Mkdir obeys the umask, Chmod does not.
	if err := os.Chmod(data, dataMode); err != nil {
		return err
	}
	// This also syncs dir, and with it the entry of the data directory.
	return b.writeMetadata(dir, v)
}

// Get implements backend.Volumes.
func (b *Backend) Get(_ context.Context, id backend.ID) (backend.Volume, error) {
	return b.readMetadata(id)
}

// Source implements backend.Direct.
func (b *Backend) Source(_ context.Context, id backend.ID) (string, error) {
	if _, err := b.readMetadata(id); err != nil {
		return "", err
	}
	data := filepath.Join(b.path(id), dataDir)
	info, err := os.Lstat(data)
	if err == nil && !info.IsDir() {
		err = fs.ErrInvalid
	}
	if err != nil {
		return "", damaged(id, err)
	}
	return data, nil
}

// Delete implements backend.Volumes. It does not read the metadata: a damaged
// volume must be removable.
func (b *Backend) Delete(ctx context.Context, id backend.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !b.exists(id) {
		return nil
	}
	if err := b.refuseMounts(b.path(id)); err != nil {
		return err
	}
	if err := b.discard(ctx, id); err != nil {
		return classify("delete volume "+id.String(), err)
	}
	return nil
}

// discard removes the volume. The next start removes the rest of a failed removal.
func (b *Backend) discard(ctx context.Context, id backend.ID) error {
	left, err := b.reserve.Discard(b.path(id), b.trash, metadataFile)
	if err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx)
	if left != nil {
		log.Error(left, "The volume is deleted, but its files stay until the next start", "path", b.trash)
	}
	if _, err := b.reserve.Make(); err != nil {
		log.Error(err, "The reserve for deletions in a full pool is missing")
	}
	return nil
}

// refuseMounts returns an error if there is a mount inside the volume. A pod with bidirectional
// mount propagation can leave one, and removing the files of the volume would remove those of the
// mounted filesystem.
func (b *Backend) refuseMounts(dir string) error {
	paths, err := b.mountsBelow(dir)
	if err != nil {
		return fault.Internal.Errorf("look for mounts inside the volume: %w", err)
	}
	if len(paths) > 0 {
		return fault.InUse.Errorf("there is a mount inside the volume at %s; unmount it first", paths[0])
	}
	return nil
}
