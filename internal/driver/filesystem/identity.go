package filesystem

import (
	"context"
	"errors"
	"os"
)

// NewIdentity gives the filesystem in a fresh copy a uuid of its own, so that
// source and copy can be told apart, and btrfs can mount both on every kernel:
// one before Linux 6.7 refuses the second of two with one uuid. xfs is mounted
// in a way that needs none, and an ext4 that was made elsewhere may need a
// rewrite, which is not worth it: ext4 does not care.
func NewIdentity(ctx context.Context, c Content, path string) error {
	switch {
	case c.Type == Btrfs:
		return newBtrfsIdentity(path)
	case c.Type == Ext4 && c.CheapIdentity:
		return run(ctx, traitsOf[Ext4].packaged, "tune2fs", "-U", "random", path)
	default:
		return nil
	}
}

// newBtrfsIdentity changes nothing but the superblocks. btrfstune would begin
// a transaction, and a tree log that was waiting to be replayed, as in a copy
// of a filesystem that was not unmounted, would no longer fit: the copy could
// never be mounted.
func newBtrfsIdentity(path string) error {
	uuid, err := newUUID()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = renameBtrfs(file, uuid)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
