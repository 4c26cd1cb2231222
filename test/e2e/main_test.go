package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/purser-csi/purser/test/e2e/leftover"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

func TestMain(m *testing.M) {
	flag.Parse()
	waitTogether()
	code := m.Run()
	if err := common.end(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "the shared purser up:", err)
		code = 1
	}
	os.Exit(code)
}

// atOnce is how many tests run in parallel. They mostly wait, so it does not depend on the
// processors.
const atOnce = "4"

// waitTogether sets the number of parallel tests, unless the command line sets it.
func waitTogether() {
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", atOnce) // it is a number
	}
}

// sharedStage is the `up` that all tests share except those that kill it. The first of them starts
// it.
type sharedStage struct {
	once    sync.Once
	dir     string
	metrics string // address of the provisioner's
	stage   *stage.Stage
	err     error
}

var common sharedStage

// shared is the common `up`, with its audit log on.
func shared(t *testing.T) *stage.Stage {
	t.Helper()
	bin := binaries(t)
	common.once.Do(func() { common.err = common.start(bin) })
	if common.err != nil {
		t.Fatal(common.err)
	}
	return common.stage
}

func (c *sharedStage) start(bin string) (err error) {
	if c.dir, err = newDataDir(); err != nil {
		return err
	}
	if c.metrics, err = scrape.FreeAddress(); err != nil {
		return err
	}
	c.stage, err = stage.Start(context.Background(), stage.Config{
		Bin: bin, DataDir: c.dir, Args: []string{"--audit", "--http-endpoint", c.metrics},
	})
	return err
}

func (c *sharedStage) end(failed bool) error {
	if c.dir == "" {
		return nil
	}
	var err error
	if c.stage != nil {
		err = errors.Join(c.stage.Stop(), nothingLeft(c.dir))
	}
	if failed || err != nil {
		sweep(c.dir)
		return errors.Join(err, fmt.Errorf("its logs are in %s", filepath.Join(c.dir, "logs")))
	}
	return os.RemoveAll(c.dir)
}

// binaries returns the folder with the built programs. It skips the test if there is none.
func binaries(t *testing.T) string {
	t.Helper()
	bin, err := stage.Bin()
	if err != nil {
		t.Skip(err)
	}
	return bin
}

// newDataDir has a short path: the kernel allows 107 bytes for that of a socket inside of it.
func newDataDir() (string, error) { return os.MkdirTemp("", "up-") }

// dataDir is a folder for an `up` of one test. It stays when the test fails, for the logs in it.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := newDataDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			sweep(dir)
			t.Logf("logs are in %s", filepath.Join(dir, "logs"))
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// sweep removes the leftovers of a failed test, except the logs.
func sweep(dir string) {
	processes, _ := leftover.Processes(dir)
	for _, p := range processes {
		_ = kill(p.Pid)
	}
	mounts, _ := leftover.Mounts(dir)
	for _, m := range mounts {
		_ = syscall.Unmount(m, syscall.MNT_DETACH)
	}
}

// start runs an `up` of the test's own, which is stopped with the test unless the test has done so.
func start(t *testing.T, cfg stage.Config) *stage.Stage {
	t.Helper()
	cfg.Bin = binaries(t)
	s, err := stage.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-s.Ended():
		default:
			stop(t, s)
		}
	})
	return s
}

// stop sends Ctrl-C, and fails the test unless all processes and mounts are gone.
func stop(t *testing.T, s *stage.Stage) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit code %d after Ctrl-C, want 0", code)
	}
	if err := nothingLeft(s.DataDir); err != nil {
		t.Error(err)
	}
}

func nothingLeft(dir string) error {
	processes, err := leftover.Processes(dir)
	for _, p := range processes {
		err = errors.Join(err, fmt.Errorf("process %d still runs: %s", p.Pid, p.Command))
	}
	mounts, failed := leftover.Mounts(dir)
	err = errors.Join(err, failed)
	for _, m := range mounts {
		err = errors.Join(err, fmt.Errorf("still mounted: %s", m))
	}
	return err
}
