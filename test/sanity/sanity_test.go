package sanity

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/driver/backend/directory"
	"github.com/purser-csi/purser/internal/mount"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const program = "csi-sanity"

// leastSpecs guards against a run that tests next to nothing, because the
// driver suddenly advertises nothing.
const leastSpecs = 20

func TestDirectoriesOnBindMounts(t *testing.T) {
	detection, err := mount.Detect(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := detection.Mounter.(mount.BindMounter); !ok {
		t.Skip("needs to mount, but is " + detection.Reason)
	}
	runSanity(t, detection.Mounter)
}

func TestDirectoriesOnSymbolicLinks(t *testing.T) {
	runSanity(t, mount.SymlinkMounter{})
}

func runSanity(t *testing.T, mounter mount.Mounter) {
	path := findProgram(t)
	dir := shortDir(t)
	d := startDriver(t, dir, mounter)
	report := filepath.Join(dir, "junit.xml")
	output, failure := runChild(exec.Command(path, flags(dir, report)...))
	result, err := readReport(report)
	if err != nil {
		t.Fatalf("%s: %v, %v\n%s", program, failure, err, output)
	}
	t.Logf("csi-sanity: %d passed, %d failed, %d skipped", result.passed, result.failed, result.skipped)
	t.Logf("calls: %v", d.Counter().Counts())
	if failure != nil || result.failed > 0 {
		t.Errorf("%s: %v\n%s", program, failure, output)
	}
	if result.passed <= leastSpecs {
		t.Errorf("only %d specs ran, more than %d expected\n%s", result.passed, leastSpecs, output)
	}
	wantClean(t, dir)
}

// flags: the default size of a volume would be 10 GiB. The mount and staging
// directories must not exist: csi-sanity makes and removes them.
func flags(dir, report string) []string {
	return []string{
		"--csi.endpoint=unix://" + socketIn(dir),
		"--csi.mountdir=" + filepath.Join(dir, "mount"),
		"--csi.stagingdir=" + filepath.Join(dir, "staging"),
		"--csi.testvolumesize=1048576",
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

func startDriver(t *testing.T, dir string, mounter mount.Mounter) *driver.Driver {
	t.Helper()
	state := filepath.Join(dir, "state")
	backend, err := directory.New(directory.Config{StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.New(driver.Config{
		Version: "v0.0.0-sanity", NodeID: "node-1", Endpoint: "unix://" + socketIn(dir),
		StateDir: state, Backend: backend, Mounter: mounter,
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

// wantClean: csi-sanity removes what it made, so a driver that did its part
// has nothing left.
func wantClean(t *testing.T, dir string) {
	t.Helper()
	for _, folder := range []string{"volumes", "temp", "trash", "published"} {
		entries, err := os.ReadDir(filepath.Join(dir, "state", folder))
		if err != nil || len(entries) > 0 {
			t.Errorf("left in %s: %v, %v", folder, entries, err)
		}
	}
	if left, err := mount.Below(dir); err != nil || len(left) > 0 {
		t.Errorf("left mounted: %q, %v", left, err)
	}
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
		_ = os.RemoveAll(dir)
	})
	return dir
}

func socketIn(dir string) string { return filepath.Join(dir, "csi.sock") }
