package mount

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// BindMounter publishes with bind mounts. The process needs CAP_SYS_ADMIN in
// the mount namespace that the consumers of the target see.
type BindMounter struct{}

var _ Mounter = BindMounter{}

// Bind implements Mounter.
func (BindMounter) Bind(source, target string, access Access) error {
	what, err := kindOfSource(source)
	if err != nil {
		return err
	}
	created, err := ensureTarget(target, what)
	if err != nil {
		return err
	}
	if err := bindAt(source, target, what, access); err != nil {
		if created {
			_ = os.Remove(target)
		}
		return err
	}
	return nil
}

func bindAt(source, target string, what kind, access Access) error {
	mounted, err := mountedOrNew(source, target, what)
	if err != nil {
		return err
	}
	if what == device {
		// Before the mount: a device that is to be read-only must not be
		// there to write to for a moment.
		if err := setDeviceAccess(source, access); err != nil {
			return err
		}
	}
	if !mounted {
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind mount %s to %s: %w", source, target, err)
		}
	}
	// The kernel ignores MS_RDONLY in the call that makes a bind mount, so
	// it takes a second one. No pod has the target open in between: its
	// path is given out only after Bind returned.
	if err := setAccess(target, access); err != nil {
		if !mounted {
			_ = unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
		}
		return err
	}
	return nil
}

// mountedOrNew tells a target that already shows source from a free one.
func mountedOrNew(source, target string, what kind) (mounted bool, err error) {
	mounted, err = IsPoint(target)
	if err != nil {
		return false, err
	}
	if !mounted {
		return false, mustBeFree(target, what)
	}
	same, err := sameFile(source, target)
	if err != nil {
		return false, err
	}
	if !same {
		return false, occupied(target, "a mount point of something else")
	}
	return true, nil
}

// setAccess makes the mount read-only or writable and keeps its other flags:
// in a user namespace the kernel refuses a remount that drops one of them.
func setAccess(target string, access Access) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(target, &stat); err != nil {
		return fmt.Errorf("read the mount flags of %s: %w", target, err)
	}
	flags := mountFlags(uint64(stat.Flags))
	wanted := flags &^ unix.MS_RDONLY
	if access == ReadOnly {
		wanted |= unix.MS_RDONLY
	}
	if wanted == flags {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|wanted, ""); err != nil {
		return fmt.Errorf("set the access of %s: %w", target, err)
	}
	return nil
}

// sameNumber are the flags that statfs(2) reports under the number by which
// mount(2) takes them; otherNumber are those with a number of their own.
const sameNumber = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC |
	unix.MS_NOATIME | unix.MS_NODIRATIME

var otherNumber = map[uint64]uintptr{
	0x1000: unix.MS_RELATIME,    // ST_RELATIME
	0x2000: unix.MS_NOSYMFOLLOW, // ST_NOSYMFOLLOW
}

// mountFlags translates what statfs reports into what mount takes.
func mountFlags(stat uint64) uintptr {
	flags := uintptr(stat & sameNumber)
	for reported, taken := range otherNumber {
		if stat&reported != 0 {
			flags |= taken
		}
	}
	return flags
}

// Unbind implements Mounter. Mounts stacked on the target all go: a crash
// between a mount and its record can leave more than one.
func (BindMounter) Unbind(target string) error {
	for {
		mounted, err := IsPoint(target)
		if err != nil {
			return err
		}
		if !mounted {
			return removeTarget(target)
		}
		if err := unmount(target); err != nil {
			return err
		}
	}
}

func unmount(target string) error {
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("unmount %s: %w; stop it and try again", target, ErrBusy)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return nil
}

// IsBound implements Mounter.
func (BindMounter) IsBound(source, target string) (bool, error) {
	mounted, err := IsPoint(target)
	if err != nil || !mounted {
		return false, err
	}
	return sameFile(source, target)
}

// setDeviceAccess tells the kernel whether the device may be written to. That
// the mount is read-only says nothing: a device node leads past it. A device
// that was made read-only itself stays so.
func setDeviceAccess(path string, access Access) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the device: %w", err)
	}
	defer file.Close()
	readOnly := 0
	if access == ReadOnly {
		readOnly = 1
	}
	if err := unix.IoctlSetPointerInt(int(file.Fd()), unix.BLKROSET, readOnly); err != nil {
		return fmt.Errorf("set the access of the device %s: %w", path, err)
	}
	return nil
}

// sameFile compares device and inode: a bind mount shows those of its
// source, and no other mount can.
func sameFile(source, target string) (bool, error) {
	from, err := os.Stat(source)
	if err != nil {
		return false, fmt.Errorf("look at the source: %w", err)
	}
	to, err := os.Stat(target)
	if err != nil {
		return false, fmt.Errorf("look at the target: %w", err)
	}
	return os.SameFile(from, to), nil
}
