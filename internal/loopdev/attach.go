package loopdev

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	controlPath = "/dev/loop-control"
	// attempts bounds the search for a free device. Between asking for one
	// and taking it another process may be faster; this many times in a row
	// it is not.
	attempts = 200
	// sectorBytes is the block size of our devices, whatever that of the
	// pool is: a filesystem must not stop working because its image was moved
	// to a disk with larger sectors.
	sectorBytes = 512
)

// Lifetime says how long a device has its image.
type Lifetime uint32

const (
	// UntilDetached survives the program: nothing else would hold a device
	// whose node is bind-mounted.
	UntilDetached Lifetime = 0
	// UntilUnused ends when the last process has closed the device and it is not mounted any more.
	// It leaves nothing behind for a device that is mounted, the process that unmounts it.
	UntilUnused Lifetime = unix.LO_FLAGS_AUTOCLEAR
)

// Attach makes a device of an image.
func Attach(ctx context.Context, image string, lifetime Lifetime) (*Device, error) {
	return attachFile(ctx, image, os.O_RDWR, lifetime)
}

// AttachReadOnly makes a device of an image that cannot be written through it.
func AttachReadOnly(ctx context.Context, image string, lifetime Lifetime) (*Device, error) {
	return attachFile(ctx, image, os.O_RDONLY, lifetime)
}

func attachFile(ctx context.Context, image string, access int, lifetime Lifetime) (*Device, error) {
	file, err := os.OpenFile(image, access, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lost error
	for range attempts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		device, err := attachOnce(file, lifetime)
		if !errors.Is(err, unix.EBUSY) {
			return device, err
		}
		lost = err
	}
	return nil, fmt.Errorf("every free loop device was taken by another process first, %d times: %w", attempts, lost)
}

func attachOnce(image *os.File, lifetime Lifetime) (*Device, error) {
	number, err := freeNumber()
	if err != nil {
		return nil, err
	}
	node, err := openNode(number, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	if err := configure(node, image, lifetime); err != nil {
		return nil, err
	}
	// A number keeps this from the image that it had before.
	err = setWritable(node)
	var device *Device
	if err == nil {
		device, err = open(number)
	}
	if err != nil {
		_ = unix.IoctlSetInt(int(node.Fd()), unix.LOOP_CLR_FD, 0)
		return nil, err
	}
	return device, nil
}

func freeNumber() (int, error) {
	control, err := os.OpenFile(controlPath, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer control.Close()
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return 0, fmt.Errorf("ask for a free loop device: %w", err)
	}
	return number, nil
}

// configure asks for direct I/O, so that what a pod writes is not kept in
// memory twice. Where the pool cannot, the kernel goes through its cache.
func configure(device, image *os.File, lifetime Lifetime) error {
	config := unix.LoopConfig{
		Fd:   uint32(image.Fd()),
		Size: sectorBytes,
		Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_DIRECT_IO | uint32(lifetime)},
	}
	// The name is for the reader of a list of loop devices only.
	name := image.Name()
	if room := len(config.Info.File_name) - 1; len(name) > room {
		name = name[len(name)-room:]
	}
	copy(config.Info.File_name[:], name)
	if err := unix.IoctlLoopConfigure(int(device.Fd()), &config); err != nil {
		return fmt.Errorf("attach %s to %s: %w", image.Name(), device.Name(), err)
	}
	return nil
}

// Usable says why this process cannot attach images; nil when it can try.
func Usable() error {
	control, err := os.OpenFile(controlPath, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("loop devices: %w", err)
	}
	return control.Close()
}
