package loopdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func mayLoop(t *testing.T) {
	t.Helper()
	if err := Usable(); err != nil {
		t.Skip("needs loop devices: " + err.Error())
	}
}

func newImage(t *testing.T, name string, bytes int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, bytes); err != nil {
		t.Fatal(err)
	}
	return path
}

func attach(t *testing.T, path string) *Device {
	t.Helper()
	device, err := Attach(t.Context(), path, UntilDetached)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := device.Detach(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return device
}

func inodeOf(t *testing.T, path string) Inode {
	t.Helper()
	inode, err := InodeOf(path)
	if err != nil {
		t.Fatal(err)
	}
	return inode
}

// The kernel keeps a number read-only when its image goes.
func TestAReadOnlyDeviceLeavesNothingBehind(t *testing.T) {
	mayLoop(t)
	for range 2 {
		device := attach(t, newImage(t, "image", 1<<20))
		file, err := os.OpenFile(device.Path(), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		var readOnly int
		if readOnly, err = unix.IoctlGetInt(int(file.Fd()), unix.BLKROGET); err != nil || readOnly != 0 {
			t.Errorf("%s is read-only from the beginning: %v", device.Path(), err)
		}
		if err := errors.Join(unix.IoctlSetPointerInt(int(file.Fd()), unix.BLKROSET, 1), file.Close()); err != nil {
			t.Fatal(err)
		}
		// As another program would, which resets nothing.
		if err := unix.IoctlSetInt(int(device.file.Fd()), unix.LOOP_CLR_FD, 0); err != nil {
			t.Fatal(err)
		}
		if err := device.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

// Devices of others are not even opened: one that does not answer would hold
// us up for ever.
func TestOnlyWhatIsLikelyIsOpened(t *testing.T) {
	mayLoop(t)
	path := newImage(t, "image", 1<<20)
	attach(t, path)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Rename(path, other); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		why  string
		like Like
		want bool
	}{
		{"its name", Named("other"), true},
		{"its name before", Named("image"), false},
		{"its folder", Below(filepath.Dir(other)), true},
		{"the folder before", Below(filepath.Dir(path)), false},
	} {
		found, err := FindLike(inodeOf(t, other), test.like)
		if err != nil || (found != nil) != test.want {
			t.Errorf("%s: %v, %v", test.why, found, err)
		}
		if found != nil {
			_ = found.Release()
		}
	}
	inode := inodeOf(t, other)
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	found, err := FindLike(inode, Named("other"))
	if err != nil || found == nil {
		t.Fatalf("removed: %v, %v", found, err)
	}
	_ = found.Release()
}

func TestADeviceIsFoundByItsInode(t *testing.T) {
	mayLoop(t)
	path := newImage(t, "image", 1<<20)
	device, inode := attach(t, path), inodeOf(t, path)
	if got, err := device.Inode(); err != nil || got != inode {
		t.Errorf("Inode = %v, %v, want %v", got, err, inode)
	}
	// The path that the kernel shows is now wrong.
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	found, err := Find(inode)
	if err != nil || found == nil || found.Path() != device.Path() {
		t.Fatalf("Find = %v, %v, want %s", found, err, device.Path())
	}
	_ = found.Release()
	if err := device.Detach(); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, inode)
	if Attached(device.Path(), inode) {
		t.Error("still attached")
	}
}

// awaitGone returns when no device has the image. Another program on the machine may look at all
// devices at the moment, and the kernel keeps one that was detached for as long as a process has it
// open.
func awaitGone(t *testing.T, inode Inode) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		found, err := Find(inode)
		if err != nil {
			t.Fatal(err)
		}
		if found == nil {
			return
		}
		_ = found.Release()
		if time.Now().After(deadline) {
			t.Fatalf("%s is there after Detach", found.Path())
		}
	}
}

// GET_FREE and CONFIGURE are two steps, and all callers ask at once.
func TestManyAttachAtOnce(t *testing.T) {
	mayLoop(t)
	const many = 64
	var group sync.WaitGroup
	paths := make([]string, many)
	devices := make([]*Device, many)
	errs := make([]error, many)
	for i := range many {
		paths[i] = newImage(t, fmt.Sprintf("image-%02d", i), 1<<20)
	}
	for i := range many {
		group.Go(func() { devices[i], errs[i] = Attach(t.Context(), paths[i], UntilDetached) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	for i, device := range devices {
		if device == nil {
			continue
		}
		begin := make([]byte, len("image-00"))
		if _, err := device.file.ReadAt(begin, 0); err != nil || string(begin) != filepath.Base(paths[i]) {
			t.Errorf("%s shows %q, %v, want %s", device.Path(), begin, err, paths[i])
		}
		if err := device.Detach(); err != nil {
			t.Error(err)
		}
	}
}

// A device that is held open is not reused for another image, even if another program detaches it.
func TestAHeldDeviceStays(t *testing.T) {
	mayLoop(t)
	path := newImage(t, "image", 1<<20)
	device, inode := attach(t, path), inodeOf(t, path)
	stranger, err := os.Open(device.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetInt(int(stranger.Fd()), unix.LOOP_CLR_FD, 0); err != nil {
		t.Fatal(err)
	}
	stranger.Close()
	if !Attached(device.Path(), inode) {
		t.Error("the device was taken away from under us")
	}
	other := attach(t, newImage(t, "other", 1<<20))
	if other.Path() == device.Path() {
		t.Errorf("%s was given away", device.Path())
	}
}

// A pod with a raw block volume has the device open under a name of its own, such as /dev/xvda.
func TestAHolderHasANodeOfAnotherName(t *testing.T) {
	mayLoop(t)
	device := attach(t, newImage(t, "image", 1<<20))
	node := filepath.Join(t.TempDir(), "xvda")
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(device.number)))); err != nil {
		t.Skipf("needs to make device nodes: %v", err)
	}
	file, err := os.Open(node)
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("needs to open device nodes in %s: %v", filepath.Dir(node), err)
	}
	if err != nil {
		t.Fatal(err)
	}
	pod := exec.Command("cat") // waits for its input
	pod.ExtraFiles = []*os.File{file}
	input, err := pod.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pod.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close(); _ = pod.Wait() })
	file.Close()
	if got, want := device.HeldBy(), fmt.Sprintf("process %d (cat) has it open", pod.Process.Pid); !strings.HasPrefix(got, want) {
		t.Errorf("HeldBy = %q, want %q", got, want)
	}
}

func TestUsersOfADeviceNode(t *testing.T) {
	mayLoop(t)
	device := attach(t, newImage(t, "image", 1<<20))
	if users, err := device.Users(); err != nil || len(users.Mounted)+len(users.Bound)+len(users.Stacked) > 0 {
		t.Fatalf("Users = %+v, %v, want none", users, err)
	}
	target := newImage(t, "target", 0)
	if err := unix.Mount(device.Path(), target, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs to mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	// kubelet makes a loop device of the device.
	stacked := attach(t, device.Path())
	users, err := device.Users()
	if err != nil || len(users.Bound) != 1 || users.Bound[0] != target {
		t.Errorf("Bound = %q, %v, want %s", users.Bound, err, target)
	}
	if len(users.Stacked) != 1 || users.Stacked[0] != stacked.Path() {
		t.Errorf("Stacked = %q, want %s", users.Stacked, stacked.Path())
	}
}

func TestGrow(t *testing.T) {
	mayLoop(t)
	path := newImage(t, "image", 1<<20)
	device := attach(t, path)
	if err := os.Truncate(path, 3<<20); err != nil {
		t.Fatal(err)
	}
	if err := device.Grow(); err != nil {
		t.Fatal(err)
	}
	if size, err := device.file.Seek(0, 2); err != nil || size != 3<<20 {
		t.Errorf("size %d, %v", size, err)
	}
}

func TestAMissingImage(t *testing.T) {
	mayLoop(t)
	if _, err := Attach(t.Context(), filepath.Join(t.TempDir(), "none"), UntilDetached); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Attach: %v, want not exist", err)
	}
}

func TestANodeIsMadeWhereThereIsNone(t *testing.T) {
	mayLoop(t)
	path := filepath.Join(t.TempDir(), "node")
	if err := mknod(path, 7); err != nil {
		t.Skipf("needs to make device nodes: %v", err)
	}
	if err := mknod(path, 7); err != nil {
		t.Errorf("a node that is there: %v", err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil || stat.Rdev != unix.Mkdev(loopMajor, 7) {
		t.Errorf("rdev %#x, %v", stat.Rdev, err)
	}
}
