package loopdev

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// HeldBy returns the process that keeps a device which this mount namespace does not use any more:
// one that has it open, or one in whose mount namespace its filesystem is still mounted, such as a
// container that has the node's root mounted without propagation. It is for error messages.
func (d *Device) HeldBy() string {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return "a process has it open"
	}
	own, _ := os.Readlink("/proc/self/ns/mnt")
	asked := map[string]bool{own: true}
	self := strconv.Itoa(os.Getpid())
	for _, process := range processes {
		if filepath.Base(process) == self {
			continue
		}
		if file := d.openedBy(process); file != "" {
			return fmt.Sprintf("%s has it open; it is detached when that process ends", describe(process))
		}
		// One process of each mount namespace tells for all of it.
		namespace, err := os.Readlink(filepath.Join(process, "ns", "mnt"))
		if err != nil || asked[namespace] {
			continue
		}
		asked[namespace] = true
		if path := d.mountedIn(process); path != "" {
			return fmt.Sprintf(
				"its filesystem is mounted at %s in the mount namespace of %s, which does not see that it was "+
					"unmounted here; it is detached when that container ends, and mounting the node's root there "+
					"with propagation HostToContainer avoids it",
				path,
				describe(process),
			)
		}
	}
	return "a process has it open; it is detached when that process ends"
}

// openedBy returns the file descriptor by which a process has the device; "" for none.
func (d *Device) openedBy(process string) string {
	files, err := os.ReadDir(filepath.Join(process, "fd"))
	if err != nil {
		return ""
	}
	for _, file := range files {
		path := filepath.Join(process, "fd", file.Name())
		if target, err := os.Readlink(path); err == nil && target == d.Path() || d.isNode(path) {
			return file.Name()
		}
	}
	return ""
}

// isNode reports whether a path leads to a node of the device. A container has one under a name of
// its own, such as /dev/xvda in a pod with a raw block volume. Without AT_STATX_DONT_SYNC an unreachable
// file server would block this.
func (d *Device) isNode(path string) bool {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat)
	return err == nil && stat.Mode&unix.S_IFMT == unix.S_IFBLK &&
		stat.Rdev_major == loopMajor && int(stat.Rdev_minor) == d.number
}

// mountedIn returns where a process sees the device's filesystem; "" for nowhere.
func (d *Device) mountedIn(process string) string {
	file, err := os.Open(filepath.Join(process, "mountinfo"))
	if err != nil {
		return ""
	}
	defer file.Close()
	mounts, err := mountinfo.GetMountsFromReader(file, func(m *mountinfo.Info) (skip, stop bool) {
		return m.Source != d.Path() && (m.Major != loopMajor || m.Minor != d.number), false
	})
	if err != nil || len(mounts) == 0 {
		return ""
	}
	return mounts[0].Mountpoint
}

// podOf finds the uid of a pod in the name of a control group; a kubelet puts it there.
var podOf = regexp.MustCompile(`pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})`)

// describe names a process and, as far as its control groups tell, its pod.
func describe(process string) string {
	name, _ := os.ReadFile(filepath.Join(process, "comm"))
	text := fmt.Sprintf("process %s (%s)", filepath.Base(process), strings.TrimSpace(string(name)))
	groups, _ := os.ReadFile(filepath.Join(process, "cgroup"))
	if m := podOf.FindStringSubmatch(string(groups)); m != nil {
		text += " of the pod with uid " + strings.ReplaceAll(m[1], "_", "-")
	}
	return text
}
