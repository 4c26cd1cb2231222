package filesystem

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const (
	freeze = 0xc0045877 // FIFREEZE
	thaw   = 0xc0045878 // FITHAW
)

// Mounted is a mounted filesystem that is kept open, so that its methods act on this filesystem
// even if another one is mounted at its path meanwhile.
type Mounted struct {
	dir  *os.File
	path string
}

// OpenMounted opens the filesystem that is mounted at a path, and refuses any
// other than that of the device: after an unmount the path is on the root
// filesystem of the machine, and to freeze that would stop all programs.
func OpenMounted(device, path string) (*Mounted, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := isOf(dir, device); err != nil {
		return nil, errors.Join(fmt.Errorf("look at what is mounted at %s: %w", path, err), dir.Close())
	}
	return &Mounted{dir, path}, nil
}

// isOf looks the mount of an open file up in the mount table.
func isOf(file *os.File, device string) error {
	id, err := mountID(file)
	if err != nil {
		return err
	}
	var node unix.Stat_t
	if err := unix.Stat(device, &node); err != nil {
		return &os.PathError{Op: "stat", Path: device, Err: err}
	}
	found, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		// btrfs mounts have a device number of their own, so the source
		// counts as well.
		same := m.Source == device || unix.Mkdev(uint32(m.Major), uint32(m.Minor)) == node.Rdev
		return m.ID != id || !same, false
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("it is not the filesystem of %s", device)
	}
	return err
}

// mountID is the number of the mount through which a file was opened.
func mountID(file *os.File) (int, error) {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(int(file.Fd())))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(info)) {
		if value, found := strings.CutPrefix(line, "mnt_id:"); found {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, errors.New("the kernel does not tell through which mount a file was opened")
}

// Close closes it without thawing it.
func (m *Mounted) Close() error { return m.dir.Close() }

// Sync writes the page cache of the filesystem, so that Freeze has little left to write while
// pods wait.
func (m *Mounted) Sync() error {
	if err := unix.Syncfs(int(m.dir.Fd())); err != nil {
		return fmt.Errorf("write what is in memory for %s: %w", m.path, err)
	}
	return nil
}

// Freeze lets the filesystem finish its running writes and blocks further ones
// until Thaw.
func (m *Mounted) Freeze() error {
	if err := ioctl(m.dir, freeze, nil); err != nil {
		return fmt.Errorf("freeze %s: %w", m.path, err)
	}
	return nil
}

// Thaw undoes Freeze; it succeeds if the filesystem is not frozen.
func (m *Mounted) Thaw() error {
	if m.isBtrfs() {
		m.thawApart()
	}
	if err := ioctl(m.dir, thaw, nil); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("thaw %s: %w", m.path, err)
	}
	return nil
}

func (m *Mounted) isBtrfs() bool {
	var stat unix.Statfs_t
	return unix.Fstatfs(int(m.dir.Fd()), &stat) == nil && stat.Type == unix.BTRFS_SUPER_MAGIC
}

// thawApart lets a process of its own thaw a btrfs, which goes on when we are
// killed. The kernel reads the superblock then, and takes it for that of another
// filesystem when a signal that kills interrupts the reading: the filesystem would
// be read-only until it is mounted anew. Where the program is missing, or it
// is not frozen, the caller finds out.
func (m *Mounted) thawApart() {
	program, err := lookUp("fsfreeze", "util-linux")
	if err != nil {
		return
	}
	const first = 3 // of the files that a process is given
	command := exec.Command(program, "--unfreeze", fmt.Sprint("/proc/self/fd/", first))
	command.ExtraFiles = []*os.File{m.dir}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = command.Run()
}
