package loopfile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"golang.org/x/sys/unix"
)

// A staging mount below a folder that is a bind mount in a shared peer group shows at two paths.
// The second is a copy of the same mount, and does not count as a user.
func TestUnstageWithACopyInThePeerGroup(t *testing.T) {
	mayMake(t, filesystem.Ext4)
	r := newRig(t)
	kubelet, data := filepath.Join(r.dir, "kubelet"), filepath.Join(r.dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(data, data, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", data, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	bind(t, data, kubelet)
	kind := kinds["ext4"]
	v := r.create(request("vol", kind.capability, kind.bytes))
	staging := r.staging(v.ID, kind.capability)
	staging.Path = filepath.Join(kubelet, "globalmount")
	if err := r.Stage(t.Context(), staging); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(data, "globalmount", "lost+found")); err != nil {
		t.Fatalf("the mount has no copy, so the test shows nothing: %v", err)
	}
	if err := r.Unstage(t.Context(), v.ID, staging.Path); err != nil {
		t.Errorf("Unstage: %v", err)
	}
	r.wantNoDevices()
	// A publication counts as a user, also in the same peer group.
	if err := r.Stage(t.Context(), staging); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(r.dir, "target")
	bind(t, staging.Path, target)
	if err := r.Unstage(t.Context(), v.ID, staging.Path); !fault.InUse.Is(err) || !strings.Contains(err.Error(), target) {
		t.Errorf("Unstage of a published volume: %v, want in use at %s", err, target)
	}
	if err := unix.Unmount(target, 0); err != nil {
		t.Fatal(err)
	}
	if err := r.Unstage(t.Context(), v.ID, staging.Path); err != nil {
		t.Errorf("Unstage: %v", err)
	}
}

// A container that has the node's root mounted without propagation keeps the
// staging mount alive. The error names the mount and the process. The volume
// is not staged a second time on another device: one filesystem on two devices
// is destroyed.
func TestUnstageNamesTheMountNamespaceThatHoldsIt(t *testing.T) {
	mayMake(t, filesystem.Ext4)
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("needs unshare of util-linux: " + err.Error())
	}
	r := newRig(t)
	kind := kinds["ext4"]
	v := r.create(request("vol", kind.capability, kind.bytes))
	staged := r.stage(v.ID, kind.capability)
	container := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", "echo ready; read line")
	container.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := container.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := container.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := container.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	path := r.staging(v.ID, kind.capability).Path
	for range 2 { // the second call finds nothing mounted here any more
		err = r.Unstage(t.Context(), v.ID, path)
		for _, word := range []string{staged, fmt.Sprintf("process %d (sh)", container.Process.Pid), "mount namespace"} {
			if !fault.InUse.Is(err) || !strings.Contains(err.Error(), word) {
				t.Errorf("Unstage: %v, want in use with %q", err, word)
			}
		}
	}
	in.Close()
	if err := container.Wait(); err != nil {
		t.Log(err)
	}
	r.unstage(v.ID)
	r.wantNoDevices()
	r.remove(v.ID)
}
