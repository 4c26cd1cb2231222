package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/test/e2e/stage"
)

const ownName = "my.csi.driver"

// A driver of one's own, which runs by itself.
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
	b := newBerth(t, s)
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

func awaitDriver(t *testing.T, socket string) {
	t.Helper()
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: socket, Timeout: time.Second})
	must(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, conn.WaitReady(ctx, func(error) {}))
}
