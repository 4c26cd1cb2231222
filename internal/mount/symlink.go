package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// SymlinkMounter publishes with symbolic links, for processes that may not
// mount. ReadOnly cannot be enforced through a link: a process that may write to the
// source may write through the target. Say so to the user (Detection.Reason
// does) instead of relying on it.
type SymlinkMounter struct{}

var _ Mounter = SymlinkMounter{}

// Bind implements Mounter. The access is not enforced.
func (SymlinkMounter) Bind(source, target string, _ Access) error {
	bound, err := linksTo(source, target)
	if err != nil || bound {
		return err
	}
	if err := makeRoom(target); err != nil {
		return err
	}
	err = os.Symlink(source, target)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", filepath.Dir(target), ErrNoParent)
	}
	if err != nil {
		return fmt.Errorf("link %s to %s: %w", target, source, err)
	}
	return nil
}

// makeRoom removes an empty directory at the target: some callers make it
// beforehand, as they would for a mount.
func makeRoom(target string) error {
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the target path: %w", err)
	}
	if !info.IsDir() {
		return occupied(target, "a "+kindOf(info.Mode()))
	}
	return removeTarget(target)
}

// Unbind implements Mounter.
func (SymlinkMounter) Unbind(target string) error {
	err := removeTarget(target)
	if errors.Is(err, unix.EBUSY) {
		// A predecessor that was allowed to mount left a mount here.
		return occupied(target, "a mount point, and this process may not unmount")
	}
	return err
}

// IsBound implements Mounter.
func (SymlinkMounter) IsBound(source, target string) (bool, error) {
	return linksTo(source, target)
}

func linksTo(source, target string) (bool, error) {
	destination, err := os.Readlink(target)
	switch {
	case err == nil:
		return destination == source, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EINVAL):
		// EINVAL is the kernel's answer for "not a symbolic link".
		return false, nil
	default:
		return false, fmt.Errorf("read the link %s: %w", target, err)
	}
}
