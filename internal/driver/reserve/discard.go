package reserve

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/purser-csi/purser/internal/driver/durable"
)

// Discard removes a directory and all below it. It renames the directory into trash, so that it
// disappears in one step, and makes nothing that would need an inode. left is what the removal of
// the files ended with: the next start goes on with those in trash.
//
// Where the pool has no room even for a name in trash, the directory is removed in place, and its
// metadata file first: an interruption then leaves a damaged volume, which a repeated deletion
// removes, and never one that looks sound and is empty.
func (r *Reserve) Discard(dir, trash, metadata string) (left, err error) {
	to := filepath.Join(trash, filepath.Base(dir)+"-"+rand.Text())
	err = r.Do(func() error { return durable.Rename(dir, to) })
	switch {
	case IsFull(err) && isThere(dir):
		return nil, removeInPlace(dir, metadata)
	case err != nil && isThere(to) && !isThere(dir):
		// It was renamed, and only the sync failed: a repeated call could not find it.
		return errors.Join(os.RemoveAll(to), durable.SyncDir(filepath.Dir(dir))), nil
	case err != nil:
		return nil, err
	}
	return os.RemoveAll(to), nil
}

func removeInPlace(dir, metadata string) error {
	if err := durable.Remove(filepath.Join(dir, metadata)); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
