//go:build linux && amd64

package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/directory"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/test/tracer"
)

// Of the child: what it is about and where it works.
const (
	childKind = "CRASH_TEST_KIND"
	childDir  = "CRASH_TEST_DIR"
	childFull = "CRASH_TEST_FULL"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(childKind); kind != "" {
		be := beKilled
		if os.Getenv(childFull) != "" {
			be = beOnAFullDisk
		}
		if err := be(kind, os.Getenv(childDir)); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1) // the main of a child
		}
		return
	}
	os.Exit(m.Run())
}

// onFiles are the features of a filesystem in an image.
var onFiles = features{stages: true, snapshots: true, inUse: true}

// kinds are what a driver can be about.
var kinds = map[string]struct {
	backend  func(state string) (backend.Backend, error)
	access   *csi.VolumeCapability
	bytes    int64
	features features
}{
	"directory": {newDirectory, access(&csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}}), 1 << 20, features{}},
	"ext4":      {newLoopfile, access(&csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}}}), 16 << 20, onFiles},
	"btrfs":     {newLoopfile, access(&csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "btrfs"}}}), 128 << 20, onFiles},
	"xfs":       {newLoopfile, access(&csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "xfs"}}}), 300 << 20, onFiles},
	"block":     {newLoopfile, access(&csi.VolumeCapability{AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}), 4 << 20, features{stages: true, snapshots: true}},
}

func access(c *csi.VolumeCapability) *csi.VolumeCapability {
	c.AccessMode = &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}
	return c
}

func newDirectory(state string) (backend.Backend, error) {
	return directory.New(directory.Config{StateDir: state})
}

func newLoopfile(state string) (backend.Backend, error) {
	return loopfile.New(loopfile.Config{StateDir: state})
}

// start serves in dir and connects.
func start(ctx context.Context, kind, dir string) (l *life, stop func() error, err error) {
	state, endpoint := filepath.Join(dir, "state"), "unix://"+filepath.Join(dir, "csi.sock")
	k := kinds[kind]
	b, err := k.backend(state)
	if err != nil {
		return nil, nil, err
	}
	d, err := driver.New(driver.Config{NodeID: "node-1", Endpoint: endpoint, StateDir: state, Backend: b, Mounter: mount.BindMounter{}})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- d.Run(ctx) }()
	end := func() error {
		cancel()
		return <-served
	}
	select {
	case <-d.Ready():
	case err := <-served:
		cancel()
		return nil, nil, err
	}
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: endpoint, Timeout: time.Minute})
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	l = &life{dir: dir, conn: conn, access: k.access, bytes: k.bytes, features: k.features}
	return l, func() error { return errors.Join(conn.Close(), end()) }, nil
}

// beKilled is the main of the child: it says each step after it is done.
func beKilled(kind, dir string) error {
	if err := tracer.Join(); err != nil {
		return err
	}
	ctx := context.Background()
	l, stop, err := start(ctx, kind, dir)
	if err != nil {
		return err
	}
	for _, s := range l.steps() {
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Println("did", s.name)
	}
	return stop()
}

// live lets a child live until it is killed before its last call; 0 is never.
func live(t *testing.T, kind, dir string, last int) (did, calls int, fatal string) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childKind+"="+kind, childDir+"="+dir)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	trace, err := tracer.Start(command, last, nil)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "did ") {
			did++
		} else {
			t.Error(lines.Text())
		}
	}
	_ = command.Wait() // killed, or its last words were read
	calls, fatal, err = trace.Wait()
	if err != nil {
		t.Fatal("trace:", err)
	}
	return did, calls, fatal
}

// TestKilledBeforeEveryStep sweeps over every call that changes something.
// After the kill a new driver starts, and either goes on where the answer is
// missing, as a caller does that repeats, or deletes everything, as one
// does that needs the volume no more. In the end the folder holds what it held after a life
// without a kill.
func TestKilledBeforeEveryStep(t *testing.T) {
	mayTrace(t)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(kind, func(t *testing.T) {
			mayHave(t, kind)
			whole := shortDir(t)
			did, calls, _ := live(t, kind, whole, 0)
			if t.Failed() || calls == 0 {
				t.Fatalf("a life without a kill: %d steps, %d calls", did, calls)
			}
			want := left(t, whole)
			killed := 0
			for last := 1; last <= calls; last += stride(calls) {
				for _, goesOn := range []bool{true, false} {
					killOnce(t, kind, last, goesOn, want)
					killed++
				}
				if t.Failed() {
					return
				}
			}
			t.Logf("%d steps with %d calls that change something; killed %d times, nothing lost and nothing left", did, calls, killed)
		})
	}
}

// stride makes the test of every day a short one; CRASH=whole leaves nothing
// out.
func stride(calls int) int {
	if os.Getenv("CRASH") == "whole" {
		return 1
	}
	return max(1, calls/8)
}

func killOnce(t *testing.T, kind string, last int, goesOn bool, want []string) {
	t.Helper()
	dir := shortDir(t)
	did, _, fatal := live(t, kind, dir, last)
	if fatal == "" {
		return // a life is not always equally long
	}
	l, stop, err := start(t.Context(), kind, dir)
	if err != nil {
		t.Errorf("killed before %q: the next start: %v", fatal, err)
		return
	}
	steps := l.giveUp(did)
	if goesOn {
		all := l.steps()
		steps = all[min(did, len(all)-1):]
	}
	for _, s := range steps {
		if err := s.do(t.Context()); err != nil {
			t.Errorf("killed before %q (call %d), after %d steps: %s: %v", fatal, last, did, s.name, err)
			break
		}
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if got := left(t, dir); !t.Failed() && !slices.Equal(got, want) {
		t.Errorf("killed before %q (call %d), after %d steps, going on %v: left %q, want %q", fatal, last, did, goesOn, got, want)
	}
}

// left lists the files and folders, mounts and loop devices below dir.
func left(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if name := strings.TrimPrefix(path, dir); name != "" && !strings.HasPrefix(name, "/staging-") && err == nil {
			found = append(found, name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	mounts, err := mount.Below(dir)
	if err != nil {
		t.Error(err)
	}
	for _, m := range mounts {
		found = append(found, "mount "+strings.TrimPrefix(m, dir))
	}
	devices, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Error(err)
	}
	for _, device := range devices {
		// A device of others can be detached between the two steps.
		if file, err := os.ReadFile(device); err == nil && strings.HasPrefix(string(file), dir+"/") {
			found = append(found, "device of "+strings.TrimSpace(strings.TrimPrefix(string(file), dir)))
		}
	}
	return found
}

func mayTrace(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount and to trace")
	}
	if err := tracer.Usable(); err != nil {
		t.Skip(err)
	}
}

func mayHave(t *testing.T, kind string) {
	t.Helper()
	detection, err := mount.Detect(shortDir(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := detection.Mounter.(mount.BindMounter); !ok {
		t.Skip("needs to mount, but is " + detection.Reason)
	}
	if kind == "directory" {
		return
	}
	if err := loopfile.Usable(shortDir(t)); err != nil {
		t.Skip("no loop images here: " + err.Error())
	}
	if fs := kinds[kind].access.GetMount().GetFsType(); fs != "" {
		if _, err := exec.LookPath("mkfs." + fs); err != nil {
			t.Skip(err)
		}
	}
}

// shortDir keeps the path of the socket below the kernel's limit.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "crash")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := mount.CleanBelow(dir); err != nil {
			t.Errorf("leave no mount behind: %v", err)
			return // removing a folder with mounts would empty them
		}
		if _, err := loopfile.DetachBelow(context.Background(), dir); err != nil {
			t.Errorf("leave no loop device behind: %v", err)
		}
		if err := os.RemoveAll(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
			t.Error(err)
		}
	})
	return dir
}
