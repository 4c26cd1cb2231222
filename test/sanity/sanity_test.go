package sanity

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/directory"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/mount"
)

func TestMain(m *testing.M) {
	status := m.Run()
	if err := goleak.Find(); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

const program = "csi-sanity"

// subject is what one run of csi-sanity is about.
type subject struct {
	backend func(t *testing.T, state string) backend.Backend
	mounter mount.Mounter
	// attaches turns ControllerPublishVolume on, and topology are segments beside that of the node.
	attaches bool
	topology map[string]string
	// flags are more flags of csi-sanity.
	flags []string
	// least guards against a run that tests next to nothing, because the
	// driver suddenly advertises nothing.
	least int
	// folders of the backend that must be empty in the end.
	folders []string
}

func TestDirectoriesOnBindMounts(t *testing.T) {
	runSanity(t, directories(mayMount(t)))
}

func TestDirectoriesOnSymbolicLinks(t *testing.T) {
	runSanity(t, directories(mount.SymlinkMounter{}))
}

// mayMount skips where bind mounts cannot be made.
func mayMount(t *testing.T) mount.Mounter {
	t.Helper()
	detection, err := mount.Detect(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := detection.Mounter.(mount.BindMounter); !ok {
		t.Skip("needs to mount, but is " + detection.Reason)
	}
	return detection.Mounter
}

func directories(mounter mount.Mounter) subject {
	return subject{
		backend: func(t *testing.T, state string) backend.Backend {
			t.Helper()
			b, err := directory.New(directory.Config{StateDir: state})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		mounter: mounter, flags: sizes(1, 2), least: 35, folders: []string{"volumes", "temp", "trash"},
	}
}

// sizes keeps volumes small, in MiB: the default would be 10 GiB.
func sizes(first, grown int) []string {
	return []string{
		fmt.Sprintf("--csi.testvolumesize=%d", first<<20),
		fmt.Sprintf("--csi.testvolumeexpandsize=%d", grown<<20),
	}
}

func runSanity(t *testing.T, s subject) {
	t.Helper()
	path := findProgram(t)
	dir := shortDir(t)
	d := startDriver(t, dir, s)
	report := filepath.Join(dir, "junit.xml")
	output, failure := runChild(exec.Command(path, append(flags(dir, report), s.flags...)...))
	result, err := readReport(report)
	if err != nil {
		t.Fatalf("%s: %v, %v\n%s", program, failure, err, output)
	}
	t.Logf("csi-sanity: %d passed, %d failed, %d skipped", result.passed, result.failed, result.skipped)
	t.Logf("calls: %v", d.Counter().Counts())
	if failure != nil || result.failed > 0 {
		t.Errorf("%s: %v\n%s", program, failure, output)
	}
	if result.passed < s.least {
		t.Errorf("only %d specs ran, at least %d expected\n%s", result.passed, s.least, output)
	}
	wantClean(t, dir, s.folders)
}

// flags: the mount and staging directories must not exist: csi-sanity makes
// and removes them.
func flags(dir, report string) []string {
	return []string{
		"--csi.endpoint=unix://" + socketIn(dir),
		"--csi.mountdir=" + filepath.Join(dir, "mount"),
		"--csi.stagingdir=" + filepath.Join(dir, "staging"),
		"--ginkgo.junit-report=" + report,
		"--ginkgo.no-color",
	}
}

// runChild ties the program's life to this test's: Pdeathsig fires when the
// thread that started the child ends, so the thread must not change hands.
func runChild(command *exec.Cmd) ([]byte, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command.CombinedOutput()
}

func startDriver(t *testing.T, dir string, s subject) *driver.Driver {
	t.Helper()
	state := filepath.Join(dir, "state")
	d, err := driver.New(driver.Config{
		Version: "v0.0.0-sanity", NodeID: "node-1", Endpoint: "unix://" + socketIn(dir),
		StateDir: state, Backend: s.backend(t, state), Mounter: s.mounter, TopologyKey: "topology.csi.purser/node",
		Topology: s.topology, Attach: driver.Attach{Required: s.attaches},
	})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, d)
	return d
}

func serve(t *testing.T, d *driver.Driver) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- d.Run(ctx) }()
	select {
	case <-d.Ready():
	case err := <-served:
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("stop the driver: %v", err)
		}
	})
}

// wantClean fails the test if the driver has volumes left: csi-sanity deletes all that it created.
func wantClean(t *testing.T, dir string, folders []string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "state", "attached")); err == nil {
		folders = append([]string{"attached"}, folders...)
	}
	for _, folder := range append([]string{"published", "stagings"}, folders...) {
		entries, err := os.ReadDir(filepath.Join(dir, "state", folder))
		if err != nil || len(entries) > 0 {
			t.Errorf("left in %s: %v, %v", folder, entries, err)
		}
	}
	if left, err := mount.Below(dir); err != nil || len(left) > 0 {
		t.Errorf("left mounted: %q, %v", left, err)
	}
	if left := loopsBelow(t, dir); len(left) > 0 {
		t.Errorf("left attached: %q", left)
	}
}

// loopsBelow lists the loop devices whose files are below a folder.
func loopsBelow(t *testing.T, dir string) (loops []string) {
	t.Helper()
	paths, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		// A device can be detached between the two steps.
		if file, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(file), dir+"/") {
			loops = append(loops, path+": "+strings.TrimSpace(string(file)))
		}
	}
	return loops
}

// shortDir keeps the path of the socket below the kernel's limit, which the
// folders of t.TempDir may exceed.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "purser")
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
		_ = os.RemoveAll(dir)
	})
	return dir
}

func socketIn(dir string) string { return filepath.Join(dir, "csi.sock") }
