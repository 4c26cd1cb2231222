package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Detection is the way of publishing that works here, and why.
type Detection struct {
	Mounter Mounter
	// Reason is one sentence for the user. It names the limits of the way
	// that was chosen.
	Reason string
}

// Detect tries whether this process may mount: it binds one empty directory to another inside dir,
// which it makes when it is missing. User ids and capability sets are not reliable: root in a
// container may lack CAP_SYS_ADMIN, and a security module may refuse even with it.
func Detect(dir string) (Detection, error) {
	err := tryBind(dir)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = tryClone(dir)
	}
	switch {
	case err == nil:
		return Detection{
			Mounter: BindMounter{},
			Reason:  "may mount: volumes are published as bind mounts",
		}, nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return Detection{Mounter: SymlinkMounter{}, Reason: refusedReason(os.Geteuid())}, nil
	default:
		return Detection{}, fmt.Errorf("find out how to publish volumes: %w", err)
	}
}

func refusedReason(euid int) string {
	who := fmt.Sprintf("not root (user id %d)", euid)
	if euid == 0 {
		who = "root, but not allowed to mount (CAP_SYS_ADMIN missing, or a security module refuses)"
	}
	return who + ": volumes are published as symbolic links, and read-only is not enforced"
}

// tryBind removes its directories one by one and only while they are empty,
// so that not even a mount that stayed can lose anything.
func tryBind(dir string) error {
	trial, err := trialDir(dir)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return err
	}
	if err != nil {
		// The cause is not wrapped: not being allowed to write here says
		// nothing about being allowed to mount.
		return fmt.Errorf("make a directory to try in: %s", err.Error())
	}
	defer os.Remove(trial)
	source, target := filepath.Join(trial, "source"), filepath.Join(trial, "target")
	if err := os.Mkdir(source, 0o700); err != nil {
		return fmt.Errorf("make the source of the trial: %w", err)
	}
	defer os.Remove(source)
	if err := (BindMounter{}).Bind(source, target, ReadOnly); err != nil {
		return err
	}
	return BindMounter{}.Unbind(target)
}

// tryClone is the trial in a full filesystem, where no directory can be made: it clones the mount
// that dir is on, as a bind mount does, and drops the clone without mounting it anywhere. A driver
// must start there, or no volume of the node could be unpublished or deleted. Kernels before 5.2
// cannot clone so; there the user id has to do.
func tryClone(dir string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	switch {
	case err == nil:
		return unix.Close(fd)
	case errors.Is(err, unix.ENOSYS) && os.Geteuid() == 0:
		return nil
	case errors.Is(err, unix.ENOSYS):
		return unix.EPERM
	default:
		return fmt.Errorf("clone the mount of %s: %w", dir, err)
	}
}

func trialDir(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return os.MkdirTemp(dir, ".mount-trial-")
}
