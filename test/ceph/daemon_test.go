package ceph

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// killDaemon kills the daemon that shows a volume.
func killDaemon(t *testing.T, program, volume string) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(line, []byte(program)) || !bytes.Contains(line, []byte(volume)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no %s of %s runs", program, volume)
}

func imageOf(id backend.ID) string {
	parts := strings.Split(id.String(), ".")
	return pool + "/purser." + parts[len(parts)-1]
}

// busyWatchers waits until the cluster has ended the watch of a killed client.
func busyWatchers(t *testing.T, _ *rig, id backend.ID) {
	t.Helper()
	image := imageOf(id)
	const patience = 90 * time.Second
	for began := time.Now(); ; {
		out, err := shared.Run(t.Context(), "rbd", "status", image)
		if err == nil && strings.Contains(out, "Watchers: none") {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("still watched: %s, %v", out, err)
		}
	}
}
