package loopfile

import (
	"context"
	"errors"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/loopdev"
)

// isAt says whether a volume is staged at the path. A record that was healed may have no path:
// where the volume is mounted at several, the caller knows which one is the staging path.
func (r record) isAt(path string) bool { return r.Path == "" || r.Path == path }

// where is the path for messages.
func (r record) where() string {
	if r.Path == "" {
		return "a path that is not known"
	}
	return r.Path
}

// heal replaces a damaged record by what the kernel says: whether the image has a loop device, and
// where that is mounted. Without a device the volume is not staged. The caller gets nil then, and
// the cause where the kernel cannot be asked.
func (b *Backend) heal(id backend.ID, cause error) (*record, error) {
	inode, err := loopdev.InodeOf(b.imageOf(id))
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	device, err := loopdev.FindLike(inode, loopdev.Named(imageFile))
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	if device == nil {
		return nil, b.removeRecord(id)
	}
	users, err := device.Users()
	if err := errors.Join(err, device.Release()); err != nil {
		return nil, errors.Join(cause, err)
	}
	r := record{Access: backend.Block}
	if len(users.Mounted) > 0 {
		content, err := filesystem.Probe(b.imageOf(id))
		if err != nil {
			return nil, errors.Join(cause, err)
		}
		r = record{Access: backend.Mount, Filesystem: content.Type}
	}
	if len(users.Mounted) == 1 {
		r.Path = users.Mounted[0]
	}
	return &r, b.writeRecord(id, r)
}

// StagedAs implements backend.StagingReader.
func (b *Backend) StagedAs(_ context.Context, id backend.ID) (backend.Staging, bool, error) {
	r, err := b.readRecord(id)
	if err != nil || r == nil {
		return backend.Staging{}, false, err
	}
	return backend.Staging{Volume: id, Path: r.Path, Capability: backend.Capability{Type: r.Access}}, true, nil
}
