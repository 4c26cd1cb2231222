package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// clientPrograms use a cluster.
var clientPrograms = []string{"rbd", "ceph", "ceph-fuse"}

// Sweep ends all programs on this machine that use the cluster of a folder, and removes all mounts
// below the folder. It must run before the cluster ends. After that, a write through such a mount
// waits in the kernel for ever, and its process cannot be killed. If the mount's daemon is killed
// first, the write fails at once.
func Sweep(dir string) error {
	clients, err := clientsOf(dir)
	if err != nil {
		return err
	}
	var failures []error
	for _, pid := range clients {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			failures = append(failures, err)
		}
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return errors.Join(append(failures, err)...)
	}
	for _, m := range slices.Backward(mounts) { // the latest first
		if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil {
			failures = append(failures, fmt.Errorf("unmount %s: %w", m.Mountpoint, err))
		}
	}
	return errors.Join(failures...)
}

// clientsOf finds the programs whose arguments name something in the folder.
// The cluster's own programs do not get their folder as an argument.
func clientsOf(dir string) (pids []int, err error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(line, []byte(dir+"/")) {
			continue // it ended meanwhile, or is about something else
		}
		program, _, _ := strings.Cut(string(line), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != os.Getpid() && slices.Contains(clientPrograms, filepath.Base(program)) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
