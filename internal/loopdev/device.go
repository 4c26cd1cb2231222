package loopdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// loopMajor is the device number of the loop driver, see the kernel's list of
// devices.
const loopMajor = 7

// Device is a loop device that is kept open, so that no other program can
// detach it and its number is not handed to another image.
type Device struct {
	number int
	file   *os.File
	// unflushed says that a Detach has failed because the device could not be flushed.
	unflushed bool
}

// Path is the device node.
func (d *Device) Path() string { return pathOf(d.number) }

// Name is what the kernel calls the device, as in /sys/block.
func (d *Device) Name() string { return "loop" + strconv.Itoa(d.number) }

// Release closes the device without detaching it.
func (d *Device) Release() error { return d.file.Close() }

func pathOf(number int) string { return "/dev/loop" + strconv.Itoa(number) }

// open is for reading: a kernel can be built so that what is open for writing
// cannot be mounted, and udev looks at a device again whenever a writer closes
// it. Everything but the attaching works on such a file.
func open(number int) (*Device, error) {
	file, err := openNode(number, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return &Device{number: number, file: file}, nil
}

// openNode makes the device node where /dev is not the kernel's own, as in
// some containers: there a new device has none.
func openNode(number, flags int) (*os.File, error) {
	path := pathOf(number)
	file, err := os.OpenFile(path, flags, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := mknod(path, number); err != nil {
		return nil, err
	}
	return os.OpenFile(path, flags, 0)
}

func mknod(path string, number int) error {
	err := unix.Mknod(path, unix.S_IFBLK|0o660, int(unix.Mkdev(loopMajor, uint32(number))))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the device node %s: %w; mount the machine's /dev into the container", path, err)
	}
	return nil
}

// Grow lets the device have the size that its image has by now. What has the
// device open sees it at once.
func (d *Device) Grow() error {
	if err := unix.IoctlSetInt(int(d.file.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("tell %s its new size: %w", d.Path(), err)
	}
	return nil
}

// Flush writes what was written to the device into its image.
func (d *Device) Flush() error { return d.file.Sync() }

// setWritable undoes what a read-only publication did to the device.
func setWritable(device *os.File) error {
	if err := unix.IoctlSetPointerInt(int(device.Fd()), unix.BLKROSET, 0); err != nil {
		return fmt.Errorf("make %s writable: %w", device.Name(), err)
	}
	return nil
}

// Detach flushes the device, gives the image back and closes the device. The
// kernel takes the device away when its last opener closes it: Attached tells.
//
// The flush comes first because clearing the device is not a last close: the
// kernel drops what a pod has written to a raw block device and not synced. A
// device that cannot be flushed stays attached and open, so that nothing is
// dropped without an error. A repeated Detach that cannot flush either goes on:
// the kernel does not keep pages that it failed to write, and an image on a
// filesystem that has shut down keeps that from being unmounted and repaired.
func (d *Device) Detach() error {
	if err := d.Flush(); err != nil && !errors.Is(err, os.ErrClosed) {
		_, gone := d.Inode()
		if !errors.Is(gone, fs.ErrNotExist) && !d.unflushed {
			d.unflushed = true
			return fmt.Errorf(
				"write what %s still holds into its image: %w; what its user did not sync is lost, and the device is "+
					"detached by the next attempt",
				d.Path(),
				err,
			)
		}
	}
	return d.Discard()
}

// Discard is Detach for a device whose image cannot be written any more, as
// when the daemon that shows it has ended: what is not in the image is lost.
func (d *Device) Discard() error {
	// The next image to get the number may be attached by a program that does
	// not look. A failure is no reason to keep the device.
	_ = setWritable(d.file)
	err := unix.IoctlSetInt(int(d.file.Fd()), unix.LOOP_CLR_FD, 0)
	if errors.Is(err, unix.ENXIO) {
		err = nil // it was detached already
	}
	return errors.Join(err, d.file.Close())
}
