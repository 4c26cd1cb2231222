package up

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// filesystemPrograms are what the built-in driver runs for each filesystem of a class.
var filesystemPrograms = []struct {
	fsType   string
	programs []string
}{
	{"ext4", []string{"mkfs.ext4", "resize2fs", "e2fsck"}},
	{"xfs", []string{"mkfs.xfs", "xfs_growfs"}},
	{"btrfs", []string{"mkfs.btrfs", "btrfs"}},
}

// lacking returns what this machine cannot do for the volumes of the built-in driver, one sentence
// each. Without root a volume is a folder, and no filesystem is made.
func lacking(uid int, find func(string) (string, error), sysResource bool) (lacks []string) {
	if uid != 0 {
		return nil
	}
	for _, fs := range filesystemPrograms {
		var missing []string
		for _, program := range fs.programs {
			if _, err := find(program); err != nil {
				missing = append(missing, program)
			}
		}
		if len(missing) > 0 {
			lacks = append(lacks,
				fmt.Sprintf("this machine has no %s: classes with csi.storage.k8s.io/fstype: %s need it",
					strings.Join(missing, ", "), fs.fsType))
		}
	}
	if !sysResource {
		lacks = append(lacks,
			"this process has no CAP_SYS_RESOURCE: an ext4 volume that a pod uses cannot be expanded; "+
				"it is expanded when the pod is gone")
	}
	return lacks
}

// hasSysResource reports whether the kernel lets this process expand a mounted ext4. It is true if the
// kernel does not say.
func hasSysResource() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return true
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}
