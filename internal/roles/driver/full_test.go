package driver

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
)

// fullDisk mounts a small tmpfs.
func fullDisk(t *testing.T) (dir string, fill func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small filesystem")
	}
	dir, err := os.MkdirTemp("", "drv") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,nr_inodes=400"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("leave no mount behind: %v", err)
		}
	})
	return dir, func() {
		file, err := os.Create(filepath.Join(dir, "ballast"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		at := int64(0)
		for step := int64(16 << 20); step >= 4096; step /= 2 {
			for unix.Fallocate(int(file.Fd()), 0, at, step) == nil {
				at += step
			}
		}
		for i := 0; os.WriteFile(filepath.Join(dir, fmt.Sprint("empty", i)), nil, 0o600) == nil; i++ {
		}
	}
}

// runRole runs the role until it is registered, calls check with the address of its HTTP server,
// and stops it.
func runRole(t *testing.T, dir, kind string, check func(base string)) {
	t.Helper()
	address := make(chan string, 1)
	d := New()
	d.Log = logr.Discard().WithSink(mute{})
	d.Endpoint, d.StateDir, d.Backend = "unix://"+filepath.Join(dir, "csi.sock"), filepath.Join(dir, "state"), kind
	d.RegistrationDir, d.HTTPEndpoint, d.Listened = filepath.Join(dir, "reg"), "127.0.0.1:0", func(a string) { address <- a }
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	select {
	case at := <-address:
		playKubelet(t, d.RegistrationDir)
		check("http://" + at)
	case err := <-ended:
		cancel()
		t.Fatalf("the role ended: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A driver whose disk ran full, without a free block or inode, starts again and says so in its
// metrics: nothing on the node could be unpublished without it.
func TestTheRoleStartsOnAFullDisk(t *testing.T) {
	for _, kind := range []string{BackendDirectory, backendLoopfile} {
		t.Run(kind, func(t *testing.T) {
			dir, fill := fullDisk(t)
			if kind == backendLoopfile {
				if err := loopfile.Usable(filepath.Join(dir, "state")); err != nil {
					t.Skip("no loop images here: " + err.Error())
				}
			}
			runRole(t, dir, kind, func(base string) {
				if _, body := fetch(t, base+"/metrics"); strings.Contains(body, "purser_driver_pool_reserve_bytes 0") ||
					!strings.Contains(body, "purser_driver_pool_free_bytes") {
					t.Errorf("metrics of a pool with room:\n%s", body)
				}
			})
			fill()
			runRole(t, dir, kind, func(base string) {
				if code, body := fetch(t, base+"/livez"); code != http.StatusOK {
					t.Errorf("livez: %d %s", code, body)
				}
				_, body := fetch(t, base+"/metrics")
				for _, want := range []string{"purser_driver_pool_free_inodes ", "purser_driver_pool_reserve_bytes 0"} {
					if !strings.Contains(body, want) {
						t.Errorf("metrics lack %q:\n%s", want, body)
					}
				}
			})
		})
	}
}
