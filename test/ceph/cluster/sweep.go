package cluster

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// client is a program that uses a cluster.
type client struct {
	pid       int
	arguments []string
}

// Sweep ends all clients of a folder's cluster on this machine: daemons of mounts, the mounts, and
// mounts on them. It must run before the cluster ends. After that, a write through such a mount
// waits in the kernel for ever, and its process cannot be killed. If the mount's daemon is killed
// first, the write fails at once.
func Sweep(dir string) error {
	clients, err := clientsOf(dir)
	if err != nil {
		return err
	}
	var failures []error
	for _, c := range clients {
		if err := unix.Kill(c.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			failures = append(failures, err)
		}
	}
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return errors.Join(append(failures, err)...)
	}
	for _, c := range clients {
		for _, m := range mounts {
			if strings.HasPrefix(m.FSType, "fuse") && slices.Contains(c.arguments, m.Mountpoint) {
				failures = append(failures, takeDown(m.Mountpoint, mounts))
			}
		}
	}
	return errors.Join(failures...)
}

// clientsOf finds the programs whose arguments name something in the folder.
// The cluster's own programs do not get their folder as an argument.
func clientsOf(dir string) (found []client, err error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(line, []byte(dir+"/")) {
			continue // it ended meanwhile, or is about something else
		}
		arguments := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid == os.Getpid() ||
			!slices.Contains([]string{"rbd", "ceph", "rbd-fuse", "ceph-fuse", "rbd-nbd"}, filepath.Base(arguments[0])) {
			continue
		}
		found = append(found, client{pid: pid, arguments: arguments})
	}
	return found, nil
}

// takeDown removes a mount whose daemon was killed, and before it the loop
// devices over its files with all that is mounted from them.
func takeDown(point string, mounts []*mountinfo.Info) error {
	backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, path := range backing {
		file, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(file), point+"/") {
			continue
		}
		device := "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(path)))
		for _, m := range mounts {
			if m.Source == device || filepath.Base(m.Root) == filepath.Base(device) {
				_ = unix.Unmount(m.Mountpoint, unix.MNT_DETACH)
			}
		}
		if node, err := os.Open(device); err == nil {
			_ = unix.IoctlSetInt(int(node.Fd()), unix.LOOP_CLR_FD, 0)
			node.Close()
		}
	}
	for _, m := range mounts {
		// Bind mounts of it have its device number.
		if m.Mountpoint == point || strings.HasPrefix(m.FSType, "fuse") && sameDevice(m, point, mounts) {
			_ = unix.Unmount(m.Mountpoint, unix.MNT_DETACH)
		}
	}
	if left, err := mountinfo.Mounted(point); err == nil && left {
		return &os.PathError{Op: "unmount", Path: point, Err: syscall.EBUSY}
	}
	return nil
}

func sameDevice(m *mountinfo.Info, point string, mounts []*mountinfo.Info) bool {
	for _, other := range mounts {
		if other.Mountpoint == point {
			return m.Major == other.Major && m.Minor == other.Minor
		}
	}
	return false
}
