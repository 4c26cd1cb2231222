package mapping

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/loopdev"
)

// Fuse maps with rbd-fuse, which shows an image as a file, and a loop device
// over that file. It needs nothing of Ceph in the kernel, and is the slowest.
type Fuse struct {
	tools Tools

	mutex sync.Mutex
	// held keeps the loop devices open. A bind mount of a device node does not, so its number could
	// be given to another image.
	held map[string]*loopdev.Device
}

// NewFuse has nothing mapped.
func NewFuse(tools Tools) *Fuse { return &Fuse{tools: tools, held: map[string]*loopdev.Device{}} }

// Name implements Mapper.
func (f *Fuse) Name() string { return "rbd-fuse" }

// Usable implements Mapper.
func (f *Fuse) Usable(context.Context) error {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return fmt.Errorf("the kernel has no FUSE, or its device is not here: %w", err)
	}
	if err := loopdev.Usable(); err != nil {
		return err
	}
	return f.tools.Present(command.RBDFuse)
}

// mountPoint is where the daemon shows the image.
func mountPoint(image Image) string { return filepath.Join(image.Dir, "fuse") }

func file(image Image) string { return filepath.Join(mountPoint(image), image.Name) }

// Map implements Mapper. The next call uses the mounts and devices that a
// failure leaves, or Unmap removes them.
func (f *Fuse) Map(ctx context.Context, image Image, access command.Access, mode Mode) (string, error) {
	if err := f.show(ctx, image, access); err != nil {
		return "", err
	}
	device, err := f.find(image)
	if err != nil {
		return "", err
	}
	if device == nil {
		if device, err = loopdev.Attach(ctx, file(image), loopdev.UntilDetached); err != nil {
			return "", fault.Internal.Errorf("make a loop device of image %s: %w", image.spec(), err)
		}
		f.hold(image, device)
	}
	if mode == ReadOnly {
		err = protect(device)
	}
	return device.Path(), err
}

// protect makes a device read-only: rbd-fuse has no option for that, so it is
// the kernel that keeps writers away. Detaching takes it back.
func protect(device *loopdev.Device) error {
	node, err := os.Open(device.Path())
	if err == nil {
		err = errors.Join(unix.IoctlSetPointerInt(int(node.Fd()), unix.BLKROSET, 1), node.Close())
	}
	if err != nil {
		return fault.Internal.Errorf("make %s read-only: %w", device.Path(), err)
	}
	return nil
}

// show mounts the daemon's filesystem, after what a dead daemon left.
func (f *Fuse) show(ctx context.Context, image Image, access command.Access) error {
	dir := mountPoint(image)
	if err := os.MkdirAll(dir, 0o700); err != nil && !isDead(err) {
		return fault.Internal.Errorf("make a folder for image %s: %w", image.spec(), err)
	}
	if _, err := os.Stat(file(image)); err == nil {
		return nil
	}
	if err := unmountAll(dir); err != nil {
		return err
	}
	_, err := f.tools.Run(ctx, command.Call{
		Program: command.RBDFuse, Access: access, Target: image.spec(),
		Arguments: []string{"-p", image.Pool, "-r", image.Name, dir},
	})
	if err != nil {
		return err
	}
	if _, err := os.Stat(file(image)); err != nil {
		return errors.Join(fault.NotFound.Errorf("rbd-fuse does not show image %s: %w", image.spec(), err), unmountAll(dir))
	}
	return nil
}

// isDead says that the daemon behind a path has ended.
func isDead(err error) bool {
	return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED)
}

// find gives the loop device of the image, which it holds; nil when there is
// none.
func (f *Fuse) find(image Image) (*loopdev.Device, error) {
	inode, err := loopdev.InodeOf(file(image))
	if errors.Is(err, fs.ErrNotExist) || isDead(err) {
		return nil, nil //nolint:nilnil // Not mapped is no error.
	}
	if err != nil {
		return nil, fault.Internal.Errorf("look at image %s: %w", image.spec(), err)
	}
	f.mutex.Lock()
	device := f.held[image.Dir]
	f.mutex.Unlock()
	if device != nil {
		if has, err := device.Inode(); err == nil && has == inode {
			return device, nil
		}
	}
	device, err = backedBy(image)
	if err != nil || device == nil {
		return nil, err
	}
	if has, err := device.Inode(); err != nil || has != inode {
		return nil, device.Release() // one of an earlier daemon
	}
	f.hold(image, device)
	return device, nil
}

// backedBy finds the device by its path. It does not query the images of other devices, since the
// kernel would call their daemons, which can hang.
func backedBy(image Image) (*loopdev.Device, error) {
	dir, err := filepath.EvalSymlinks(image.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // Not mapped is no error.
	}
	var device *loopdev.Device
	if err == nil {
		image.Dir = dir
		device, err = loopdev.BackedBy(file(image))
	}
	if err != nil {
		return nil, fault.Internal.Errorf("look for the device of image %s: %w", image.spec(), err)
	}
	return device, nil
}

func (f *Fuse) hold(image Image, device *loopdev.Device) {
	f.mutex.Lock()
	before := f.held[image.Dir]
	f.held[image.Dir] = device
	f.mutex.Unlock()
	if before != nil {
		_ = before.Release()
	}
}

func (f *Fuse) drop(image Image) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.held, image.Dir)
}

// Release closes every device and detaches none, as the end of the process would.
func (f *Fuse) Release() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, device := range f.held {
		_ = device.Release()
	}
	clear(f.held)
}

// Find implements Mapper.
func (f *Fuse) Find(_ context.Context, image Image) (string, error) {
	device, err := f.find(image)
	if err != nil || device == nil {
		return "", err
	}
	return device.Path(), nil
}

// Resized implements Resizer. The kernel remembers the size of a file for a
// second, and a loop device takes what the kernel remembers.
func (f *Fuse) Resized(_ context.Context, image Image) error {
	device, err := f.find(image)
	if err != nil || device == nil {
		return err
	}
	var fresh unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, file(image), unix.AT_STATX_FORCE_SYNC, unix.STATX_SIZE, &fresh); err != nil {
		return fault.Internal.Errorf("measure image %s: %w", image.spec(), err)
	}
	return device.Grow()
}

// Unmap implements Mapper.
func (f *Fuse) Unmap(ctx context.Context, image Image) error {
	device, err := f.find(image)
	if err != nil {
		return err
	}
	if device != nil {
		if err := device.Flush(); err != nil {
			return fault.Internal.Errorf("write what is in memory for image %s: %w", image.spec(), err)
		}
	} else if device, err = f.dead(image); err != nil {
		return err
	}
	if device != nil {
		if err := refuseInUse(image, device); err != nil {
			return err
		}
		f.drop(image) // a device is closed with the attempt to detach it
		if err := detach(ctx, image, device); err != nil {
			return err
		}
	}
	if err := unmountAll(mountPoint(image)); err != nil {
		return err
	}
	if err := os.Remove(mountPoint(image)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Internal.Errorf("remove the folder of image %s: %w", image.spec(), err)
	}
	return nil
}

// dead gives the loop device of an image whose daemon has ended. What was
// written to it and not yet to the image is lost, so it is of no use.
func (f *Fuse) dead(image Image) (*loopdev.Device, error) {
	f.mutex.Lock()
	device := f.held[image.Dir]
	f.mutex.Unlock()
	if device != nil {
		return device, nil
	}
	return backedBy(image)
}

// lingering bounds how long the kernel's own users of a device are waited for.
const (
	lingering      = 2 * time.Second
	lookAgainAfter = 10 * time.Millisecond
)

// refuseInUse returns an error for a device in use. The kernel would detach such a device later,
// and until then it would be neither usable nor gone.
func refuseInUse(image Image, device *loopdev.Device) error {
	users, err := device.Users()
	if err != nil {
		return fault.Internal.Errorf("look for users of %s: %w", device.Path(), err)
	}
	for _, paths := range [][]string{users.Mounted, users.Bound, users.Stacked} {
		if len(paths) > 0 {
			return fault.InUse.Errorf("device %s of image %s is in use at %s", device.Path(), image.spec(), paths[0])
		}
	}
	return nil
}

// detach waits until the device is detached from its image, which it recognises by the file, since
// the kernel may change the path.
func detach(ctx context.Context, image Image, device *loopdev.Device) error {
	has := func() bool {
		return strings.HasSuffix(strings.TrimSuffix(device.BackingPath(), " (deleted)"), "/"+image.Name)
	}
	if err := device.Discard(); err != nil { // Unmap has flushed it, or its daemon has ended
		return fault.Internal.Errorf("detach %s: %w", device.Path(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, lingering)
	defer cancel()
	for has() {
		select {
		case <-ctx.Done():
			return fault.InUse.Errorf("%s stays attached: %s", device.Path(), device.HeldBy())
		case <-time.After(lookAgainAfter):
		}
	}
	return nil
}

// unmountAll unmounts all mounts at a path, also those whose daemon has ended. The daemon ends with
// its mount.
func unmountAll(path string) error {
	for {
		mounted, err := mountinfo.Mounted(path)
		if errors.Is(err, fs.ErrNotExist) || (err == nil && !mounted) {
			return nil
		}
		if err != nil && !isDead(err) {
			return fault.Internal.Errorf("look at %s: %w", path, err)
		}
		err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			return fault.InUse.Errorf("unmount %s: a process still uses it", path)
		}
		if errors.Is(err, unix.EINVAL) {
			return nil
		}
		if err != nil {
			return fault.Internal.Errorf("unmount %s: %w", path, err)
		}
	}
}
