package loopdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// blockDir is where the kernel lists its block devices. A loop device has a
// folder named loop while it has an image.
const blockDir = "/sys/block"

// Inode names an image for as long as it exists, whatever its path is.
type Inode struct {
	device, inode uint64
}

// InodeOf looks at a file.
func InodeOf(path string) (Inode, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return Inode{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return Inode{device: stat.Dev, inode: stat.Ino}, nil
}

// Inode gives the image of the device; fs.ErrNotExist when it has none.
func (d *Device) Inode() (Inode, error) {
	status, err := unix.IoctlLoopGetStatus64(int(d.file.Fd()))
	if errors.Is(err, unix.ENXIO) {
		return Inode{}, fmt.Errorf("%s has no image: %w", d.Path(), fs.ErrNotExist)
	}
	if err != nil {
		return Inode{}, fmt.Errorf("ask for the image of %s: %w", d.Path(), err)
	}
	return Inode{device: status.Device, inode: status.Inode}, nil
}

// Like says of what the kernel calls an image whether it can be one that is
// looked for. Only such devices are opened: to open one whose filesystem does
// not answer can take for ever, and another program's must not hold us up.
type Like func(path string) bool

// Named is for an image that has this name in its folder. The kernel follows
// a renaming, and what is removed keeps its name.
func Named(name string) Like {
	return func(path string) bool { return filepath.Base(path) == name }
}

// Below is for images in a folder, and in the folders in it.
func Below(dir string) Like {
	return func(path string) bool { return strings.HasPrefix(path, dir+"/") }
}

func anything(string) bool { return true }

// Find opens the device of an image, whatever its name; nil when it has none.
func Find(image Inode) (*Device, error) { return FindLike(image, anything) }

// FindLike is Find for an image of which something is known.
func FindLike(image Inode, like Like) (*Device, error) {
	var found *Device
	err := each(like, func(device *Device, inode Inode) (keep bool) {
		if inode != image || found != nil {
			return false
		}
		found = device
		return true
	})
	return found, err
}

// All opens every device that has such an image, by its image. The caller
// releases them.
func All(like Like) (map[Inode][]*Device, error) {
	all := map[Inode][]*Device{}
	err := each(like, func(device *Device, inode Inode) (keep bool) {
		all[inode] = append(all[inode], device)
		return true
	})
	return all, err
}

// each visits the devices that have an image and closes those that the
// visitor does not keep. One that is detached meanwhile is not an error, and one
// that does not tell its image is not ours: the kernel asks the filesystem that
// the image is on, and that of another program can be out of order, a dead FUSE
// or NFS server for example. It must not take our volumes along.
func each(like Like, visit func(*Device, Inode) (keep bool)) error {
	numbers, err := attachedNumbers()
	if err != nil {
		return err
	}
	for _, number := range numbers {
		if path := backingPath(number); path != "" && !like(path) {
			continue
		}
		device, err := open(number)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) {
				continue
			}
			return err
		}
		inode, err := device.Inode()
		if err != nil || !visit(device, inode) {
			device.file.Close()
		}
	}
	return nil
}

func attachedNumbers() ([]int, error) {
	dir, err := os.Open(blockDir)
	if err != nil {
		return nil, fmt.Errorf("list the loop devices: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list the loop devices: %w", err)
	}
	var numbers []int
	for _, name := range names {
		digits, isLoop := strings.CutPrefix(name, "loop")
		number, err := strconv.Atoi(digits)
		if !isLoop || err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(blockDir, name, "loop")); err == nil {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// BackingPath is what the kernel calls the image. It is good for a message
// and for finding devices whose image was deleted, not for telling images
// apart.
func (d *Device) BackingPath() string {
	content, err := os.ReadFile(filepath.Join(blockDir, d.Name(), "loop", "backing_file"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(content), "\n")
}

// deleted is what the kernel adds to the path of an image that was removed.
const deleted = " (deleted)"

// backingPath is BackingPath without that.
func backingPath(number int) string {
	return strings.TrimSuffix((&Device{number: number}).BackingPath(), deleted)
}
