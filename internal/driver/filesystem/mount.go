package filesystem

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/purser-csi/purser/internal/driver/fault"
	"golang.org/x/sys/unix"
)

// Mounting asks for a filesystem at a path.
type Mounting struct {
	Type         Type
	Device, Path string
	// Discard frees the blocks of deleted files in the image.
	Discard bool
	// Space is Allocated for an image that is to keep what it has taken.
	Space Space
	// Options are the user's; they win. They may be sensitive and appear in
	// no error.
	Options []string
}

// flagOf are the options that mount(2) takes as a bit; a "no" bit is one that
// is cleared.
var flagOf = map[string]struct{ set, cleared uintptr }{
	"ro": {set: unix.MS_RDONLY}, "rw": {cleared: unix.MS_RDONLY},
	"nosuid": {set: unix.MS_NOSUID}, "suid": {cleared: unix.MS_NOSUID},
	"nodev": {set: unix.MS_NODEV}, "dev": {cleared: unix.MS_NODEV},
	"noexec": {set: unix.MS_NOEXEC}, "exec": {cleared: unix.MS_NOEXEC},
	"noatime": {set: unix.MS_NOATIME}, "atime": {cleared: unix.MS_NOATIME},
	"nodiratime": {set: unix.MS_NODIRATIME}, "diratime": {cleared: unix.MS_NODIRATIME},
	"relatime": {set: unix.MS_RELATIME}, "norelatime": {cleared: unix.MS_RELATIME},
	"strictatime": {set: unix.MS_STRICTATIME}, "nostrictatime": {cleared: unix.MS_STRICTATIME},
	"sync": {set: unix.MS_SYNCHRONOUS}, "async": {cleared: unix.MS_SYNCHRONOUS},
	"dirsync": {set: unix.MS_DIRSYNC}, "lazytime": {set: unix.MS_LAZYTIME},
	"nolazytime": {cleared: unix.MS_LAZYTIME}, "silent": {set: unix.MS_SILENT},
	"defaults": {}, "auto": {}, "noauto": {}, "nofail": {}, "_netdev": {}, "user": {}, "nouser": {},
}

// arguments are those of mount(2).
func (m Mounting) arguments() (flags uintptr, data string) {
	options := slices.Clone(traitsOf[m.Type].options)
	if m.Discard {
		options = append(options, traitsOf[m.Type].discard)
	}
	if keep := traitsOf[m.Type].keepSpace; keep != "" && m.Space == Allocated {
		options = append(options, keep)
	}
	for _, option := range split(m.Options) {
		flag, isFlag := flagOf[option]
		if !isFlag {
			options = append(options, option)
		}
		flags = flags&^flag.cleared | flag.set
	}
	return flags, strings.Join(options, ",")
}

// Mount mounts it.
func Mount(m Mounting) error {
	flags, data := m.arguments()
	err := unix.Mount(m.Device, m.Path, string(m.Type), flags, data)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL) && len(m.Options) > 0:
		return fault.Invalid.Errorf(
			"mount %s at %s: %w; the kernel's log says why, often it is one of the %d mount_flags (mountOptions of "+
				"the storage class)",
			m.Type,
			m.Path,
			err,
			len(split(m.Options)),
		)
	case errors.Is(err, unix.ENODEV):
		return fault.Unready.Errorf(
			"mount %s at %s: %w: the kernel of this machine has no %s", m.Type, m.Path, err, m.Type,
		)
	default:
		return fmt.Errorf("mount %s at %s: %w; the kernel's log says why", m.Type, m.Path, err)
	}
}

// SetDiscard switches the discard of deleted files' blocks of a mounted filesystem on or off.
func SetDiscard(t Type, path string, on bool) error {
	if t == XFS {
		return errors.New("xfs cannot change this while it is mounted")
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return err
	}
	option := "nodiscard"
	if on {
		option = traitsOf[t].discard
	}
	// A remount sets all flags anew. These have the same number in both calls;
	// the times of access are left to the kernel's default.
	const kept = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC |
		unix.MS_SYNCHRONOUS | unix.MS_NOATIME | unix.MS_NODIRATIME
	if err := unix.Mount("", path, "", unix.MS_REMOUNT|uintptr(stat.Flags)&kept, option); err != nil {
		return fmt.Errorf("remount %s with %s: %w", path, option, err)
	}
	return nil
}

// Unmount takes everything away that is mounted at the path.
func Unmount(path string) error {
	for {
		err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil // not a mount point any more
		case errors.Is(err, unix.EBUSY):
			return fault.InUse.Errorf("unmount %s: a process still uses the mount; stop it and try again", path)
		case err != nil:
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}
