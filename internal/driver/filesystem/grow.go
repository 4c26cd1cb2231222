package filesystem

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ioctls that grow a mounted filesystem, as numbered by the kernel's
// headers on all but a few old architectures.
const (
	extResize   = 0x40086610 // EXT4_IOC_RESIZE_FS
	xfsGeometry = 0x80705864 // XFS_IOC_FSGEOMETRY_V1
	xfsGrow     = 0x4010586e // XFS_IOC_FSGROWFSDATA
	btrfsResize = 0x50009403 // BTRFS_IOC_RESIZE
)

// ErrNotWhileMounted means that this machine grows such a filesystem only
// while it is not mounted.
var ErrNotWhileMounted = errors.New(
	"the kernel does not allow this process to grow a mounted ext4 (CAP_SYS_RESOURCE is missing)",
)

// MayGrowMounted says whether Grow is allowed here.
func MayGrowMounted(t Type) bool { return t != Ext4 || mayUseReserved() }

// mayUseReserved looks for CAP_SYS_RESOURCE, which ext4 wants and which even
// root lacks in many containers.
func mayUseReserved() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false
	}
	return sets[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// Grow lets a mounted filesystem fill its device.
func Grow(t Type, path string, deviceBytes int64) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	switch t {
	case Ext4:
		err = growExt(dir, deviceBytes)
	case XFS:
		err = growXFS(dir, deviceBytes)
	default:
		err = growBtrfs(dir)
	}
	if err != nil {
		return fmt.Errorf("grow %s at %s: %w", t, path, err)
	}
	return nil
}

func ioctl(file *os.File, request uintptr, argument unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), request, uintptr(argument))
	if errno != 0 {
		return errno
	}
	return nil
}

func blockBytes(dir *os.File) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &stat); err != nil {
		return 0, err
	}
	return stat.Bsize, nil
}

func growExt(dir *os.File, deviceBytes int64) error {
	block, err := blockBytes(dir)
	if err != nil {
		return err
	}
	blocks := uint64(deviceBytes / block)
	err = ioctl(dir, extResize, unsafe.Pointer(&blocks))
	if errors.Is(err, unix.EPERM) && !mayUseReserved() {
		return ErrNotWhileMounted
	}
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: the filesystem has errors; it is checked when it is staged the next time", err)
	}
	return err
}

// growXFS says how much of the filesystem may be inodes, because the kernel
// sets both at once.
func growXFS(dir *os.File, deviceBytes int64) error {
	const inodePercentAt = 7 * 4
	var geometry [112]byte
	if err := ioctl(dir, xfsGeometry, unsafe.Pointer(&geometry)); err != nil {
		return err
	}
	block := int64(binary.NativeEndian.Uint32(geometry[:]))
	wish := struct {
		blocks       uint64
		inodePercent uint32
		_            uint32
	}{uint64(deviceBytes / block), binary.NativeEndian.Uint32(geometry[inodePercentAt:]), 0}
	return ioctl(dir, xfsGrow, unsafe.Pointer(&wish))
}

func growBtrfs(dir *os.File) error {
	var wish struct {
		_    int64
		name [4088]byte
	}
	copy(wish.name[:], "max")
	return ioctl(dir, btrfsResize, unsafe.Pointer(&wish))
}

// GrowUnmounted lets an ext4 that is not mounted fill its file. The
// overwritten blocks are kept in a file named undo, because a resize2fs that is killed
// leaves a filesystem which e2fsck does not repair without asking. After a
// failure call Undo; after a success the file is removed.
func GrowUnmounted(ctx context.Context, path, undo string) error {
	if err := Check(ctx, path, undo); err != nil {
		return err
	}
	if err := begin(path, undo); err != nil {
		return err
	}
	if err := run(ctx, traitsOf[Ext4].packaged, "resize2fs", "-z", undo, path); err != nil {
		return err
	}
	if err := begin(path, undo); err != nil {
		return err
	}
	return Check(ctx, path, undo)
}

// begin completes the previous step: it syncs its writes and then removes the
// undo file, which could revert them. A program does not continue the undo file
// of another one.
func begin(path, undo string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return err
	}
	if err := os.Remove(undo); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// badResizeInode is the message of e2fsck after a resize2fs of e2fsprogs 1.47
// with an undo file. The inode is for the expansion of a mounted filesystem; it
// has no data of a user, but e2fsck asks before it repairs it.
const badResizeInode = "Resize inode not valid"

// Check repairs what can be repaired without asking in an ext4 that is not
// mounted. Even of one that is in order it writes the superblock, and not in
// one step, so there is a file named undo as for GrowUnmounted.
func Check(ctx context.Context, path, undo string) error {
	err := check(ctx, path, "-p", undo)
	if !said(err, badResizeInode) {
		return err
	}
	// It stops at the first question, so it is asked for all of them: yes is
	// the answer to this one, and to no other.
	questions, unread := runAndRead(ctx, traitsOf[Ext4].packaged, "e2fsck", "-f", "-n", path)
	if _, exited := exitedWith(unread); unread != nil && !exited || !isAboutResizeInode(questions) {
		return err
	}
	if err := begin(path, undo); err != nil {
		return err
	}
	return check(ctx, path, "-y", undo)
}

// isAboutResizeInode reads what e2fsck asks and answers itself with no. Inode 7
// is the one for resizing.
func isAboutResizeInode(questions string) bool {
	for line := range strings.Lines(questions) {
		question := strings.TrimSpace(line)
		if strings.HasSuffix(question, "? no") && !strings.HasPrefix(question, badResizeInode) &&
			!strings.HasPrefix(question, "Inode 7, ") {
			return false
		}
	}
	return strings.Contains(questions, badResizeInode)
}

func check(ctx context.Context, path, answers, undo string) error {
	// Up to here it is repaired (1), or was in order (0).
	const repaired = 1
	err := run(ctx, traitsOf[Ext4].packaged, "e2fsck", "-f", answers, "-z", undo, path)
	if code, exited := exitedWith(err); exited && code <= repaired {
		return nil
	}
	return err
}

// Undo reverts a GrowUnmounted or a Check that failed or was killed.
// It writes nothing else, so that it can itself be killed and repeated.
func Undo(ctx context.Context, path, undo string) error {
	undone := run(ctx, traitsOf[Ext4].packaged, "e2undo", "-f", undo, path)
	if undone == nil {
		return nil
	}
	// The file can be too short to be one: then nothing was overwritten yet,
	// and there is a filesystem to look at, in order or not.
	const unreadable = 8
	err := run(ctx, traitsOf[Ext4].packaged, "e2fsck", "-f", "-n", path)
	if code, exited := exitedWith(err); err == nil || exited && code < unreadable {
		return nil
	}
	return errors.Join(err, undone)
}
