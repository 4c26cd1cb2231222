package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// IsPoint says whether something is mounted at target. It does not follow a
// symbolic link there, and a target that does not exist is not a mount point.
//
// It never asks what is mounted there: a FUSE daemon that died answers with
// errors, and a cluster that is away does not answer at all. The question is
// the one of its parent alone.
func IsPoint(target string) (bool, error) {
	folder, name := filepath.Split(filepath.Clean(target))
	if name == "" {
		return true, nil // the root
	}
	mounted, err := crosses(folder, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// A kernel before 5.6, or a container that does not know the call.
		mounted, err = isListed(folder, name)
	}
	if err != nil {
		return false, fmt.Errorf("ask whether %s is a mount point: %w", target, err)
	}
	return mounted, nil
}

// crosses opens the name only if that does not lead into another mount.
func crosses(folder, name string) (bool, error) {
	parent, err := unix.Openat2(unix.AT_FDCWD, folder, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		return false, err
	}
	defer unix.Close(parent)
	file, err := unix.Openat2(parent, name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.EXDEV) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, unix.Close(file)
}

// isListed looks the path up in the mount table.
func isListed(folder, name string) (bool, error) {
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false, err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(filepath.Join(real, name)))
	return len(mounts) > 0, err
}
