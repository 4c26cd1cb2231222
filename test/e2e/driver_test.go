package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/test/e2e/stage"
)

const ownName = "my.csi.driver"

// `up` works with a user's own driver, which runs as a separate process.
func TestOwnDriver(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	state, socket := filepath.Join(dir, "state"), filepath.Join(dir, "own.sock")
	log, err := os.Create(filepath.Join(dir, "driver.log"))
	must(t, err)
	defer log.Close()
	driver, err := stage.Launch(stage.Command{
		Path: filepath.Join(binaries(t), "purser"), Output: log,
		Args: []string{"driver", "--driver-name", ownName, "--endpoint", "unix://" + socket, "--state-dir", state},
	})
	must(t, err)
	t.Cleanup(func() {
		if err := driver.Stop(); err != nil {
			t.Errorf("the driver ended with: %v", err)
		}
	})
	awaitDriver(t, socket)

	s := start(t, stage.Config{DataDir: filepath.Join(dir, "d"), Socket: socket, Args: []string{"--csi-address", "unix://" + socket}})
	b := newTestNamespace(t, s)
	claim := b.claim(t, "claim", "")
	pv := b.awaitBound(t, claim)
	folder := filepath.Join(state, "volumes", pv.Name)
	if pv.Spec.CSI.Driver != ownName || !exists(t, folder) {
		t.Errorf("the volume is from %s, in %s: %v", pv.Spec.CSI.Driver, folder, exists(t, folder))
	}
	b.delete(t, claim)
	b.awaitGone(t, pv)
	if exists(t, folder) {
		t.Errorf("%s is still on disk", folder)
	}
	stop(t, s)
}

// A driver that is restarted under another name ends `up`, with one error that has both names.
func TestOwnDriverRenamed(t *testing.T) {
	t.Parallel()
	binaries(t)
	dir := dataDir(t)
	socket := filepath.Join(dir, "own.sock")
	end := newOwnDriver("scripted.csi", nil).serve(t, socket)
	s := start(t, stage.Config{DataDir: filepath.Join(dir, "d"), Socket: socket, Args: []string{"--csi-address", socket}})
	end()
	newOwnDriver("renamed.csi", nil).serve(t, socket)
	awaitEnd(t, s)
	output := s.Output()
	if s.ExitCode() != failure || !strings.Contains(output, `it was "scripted.csi" and is "renamed.csi"`) {
		t.Errorf("exit code %d:\n%s", s.ExitCode(), output)
	}
	if strings.Contains(output, "csi-provisioner: csi-provisioner:") {
		t.Errorf("who speaks is said twice:\n%s", output)
	}
}

func awaitEnd(t *testing.T, s *stage.Stage) {
	t.Helper()
	eventually(t, func(context.Context) error {
		select {
		case <-s.Ended():
			return nil
		default:
			return errors.New("up still runs")
		}
	})
}

func awaitDriver(t *testing.T, socket string) {
	t.Helper()
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: socket, Timeout: time.Second})
	must(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, conn.WaitReady(ctx, func(error) {}))
}
