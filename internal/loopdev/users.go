package loopdev

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/mount"
)

// Users are the paths at which a device is in use.
type Users struct {
	// Mounted are where its filesystem is mounted, bind mounts included.
	Mounted []string
	// Bound are where its device node is bind-mounted.
	Bound []string
	// Stacked are the loop devices that have it as their image. kubelet
	// makes one for each raw block volume of a pod.
	Stacked []string

	table []*mountinfo.Info
}

// Users looks the device up in the mount table of this process.
func (d *Device) Users() (Users, error) {
	var users Users
	number := unix.Mkdev(loopMajor, uint32(d.number))
	table, err := mountinfo.GetMounts(nil)
	if err != nil {
		return users, fmt.Errorf("look for users of %s: %w", d.Path(), err)
	}
	users.table = table
	for _, m := range table {
		// btrfs mounts have a device number of their own, so the source
		// counts as well.
		mounted := m.Source == d.Path() || unix.Mkdev(uint32(m.Major), uint32(m.Minor)) == number
		switch {
		case !mounted && filepath.Base(m.Root) != d.Name():
		case filepath.Base(m.Root) != d.Name() || m.Source == d.Path():
			users.Mounted = append(users.Mounted, m.Mountpoint)
		case isNode(m.Mountpoint, number):
			users.Bound = append(users.Bound, m.Mountpoint)
		}
	}
	users.Stacked, err = d.stacked()
	return users, err
}

// MountedElsewhere returns the paths at which the filesystem is mounted apart
// from one mount and its copies in the same peer group.
func (u Users) MountedElsewhere(path string) []string {
	copies := mount.PeerCopies(u.table, path)
	var others []string
	for _, other := range u.Mounted {
		if !copies[other] {
			others = append(others, other)
		}
	}
	return others
}

// isNode tells a bind mount of the device from a file that has its name.
func isNode(path string, number uint64) bool {
	var stat unix.Stat_t
	return unix.Stat(path, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFBLK && stat.Rdev == number
}

func (d *Device) stacked() ([]string, error) {
	var node unix.Stat_t
	if err := unix.Fstat(int(d.file.Fd()), &node); err != nil {
		return nil, &os.PathError{Op: "stat", Path: d.Path(), Err: err}
	}
	numbers, err := attachedNumbers()
	if err != nil {
		return nil, err
	}
	var stacked []string
	for _, number := range numbers {
		if number == d.number || !d.mayBearOn(backingPath(number)) {
			continue
		}
		if backedBy(number, node.Rdev) {
			stacked = append(stacked, pathOf(number))
		}
	}
	return stacked, nil
}

// kubeletDevices is a part of the paths at which kubelet has the devices of
// pods, and of no others.
const kubeletDevices = "/volumeDevices/"

// mayBearOn says whether what the kernel calls an image can be this device: its
// node, wherever that is, or what a kubelet calls it.
func (d *Device) mayBearOn(path string) bool {
	return filepath.Base(path) == d.Name() || strings.HasPrefix(path, "/dev/") || strings.Contains(path, kubeletDevices)
}

func backedBy(number int, device uint64) bool {
	file, err := os.Open(pathOf(number))
	if err != nil {
		return false
	}
	defer file.Close()
	status, err := unix.IoctlLoopGetStatus64(int(file.Fd()))
	return err == nil && status.Rdevice == device
}

// Attached says whether the device still has this image.
func Attached(number string, image Inode) bool {
	file, err := os.Open(number)
	if err != nil {
		return false
	}
	defer file.Close()
	status, err := unix.IoctlLoopGetStatus64(int(file.Fd()))
	return err == nil && Inode{device: status.Device, inode: status.Inode} == image
}
