package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// silentMount mounts a FUSE filesystem whose daemon never answers: a process that
// asks it anything waits. When the daemon ends, everything is an error.
func silentMount(t *testing.T, target string) (end func()) {
	t.Helper()
	daemon, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs FUSE: %v", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", daemon)
	if err := unix.Mount("silent", target, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatal(errors.Join(err, unix.Close(daemon)))
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = unix.Close(daemon)
		}
	}
	t.Cleanup(end)
	return end
}

// soon fails the test if do hangs. It ends the daemon, so that do returns.
func soon(t *testing.T, what string, end func(), do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("%s hangs", what)
		end()
		<-done
	}
}

// The daemon of a filesystem hangs, because its cluster is away, or has died:
// what is mounted is known, and can be taken away.
func TestAMountThatDoesNotAnswer(t *testing.T) {
	for _, dead := range []bool{false, true} {
		t.Run(fmt.Sprintf("dead=%v", dead), func(t *testing.T) {
			m, dir := mayBind(t), sandbox(t)
			staging, target := filepath.Join(dir, "staging"), filepath.Join(dir, "target")
			mkdir(t, staging)
			mkdir(t, target)
			end := silentMount(t, staging)
			if err := unix.Mount(staging, target, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			if dead {
				end()
				if _, err := os.Lstat(target); !errors.Is(err, unix.ENOTCONN) {
					t.Fatalf("the filesystem is not dead: %v", err)
				}
			}
			soon(t, "IsPoint", end, func() error {
				point, err := IsPoint(target)
				if err == nil && !point {
					err = errors.New("it says no")
				}
				return err
			})
			soon(t, "Unbind", end, func() error { return m.Unbind(target) })
			wantAbsent(t, target)
		})
	}
}

// Both ways to look agree.
func TestIsPoint(t *testing.T) {
	m, dir := mayBind(t), sandbox(t)
	from := source(t, dir)
	bound, link, linked := filepath.Join(dir, "bound"), filepath.Join(dir, "link"), filepath.Join(dir, "linked")
	if err := errors.Join(m.Bind(from, bound, ReadWrite), os.Symlink(bound, link), os.Symlink(dir, linked)); err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{
		"/": true, bound: true, bound + "/": true, filepath.Join(linked, "bound"): true, "/proc": true,
		from: false, link: false, filepath.Join(bound, "hello"): false, filepath.Join(dir, "missing"): false,
		filepath.Join(dir, "missing", "below"): false, filepath.Join(bound, "hello", "below"): false,
	}
	for path, want := range tests {
		if got, err := IsPoint(path); err != nil || got != want {
			t.Errorf("IsPoint(%s) = %v, %v, want %v", path, got, err, want)
		}
		if folder, name := filepath.Split(filepath.Clean(path)); name != "" && !strings.Contains(path, "below") {
			if got, err := isListed(folder, name); err != nil || got != want {
				t.Errorf("isListed(%s) = %v, %v, want %v", path, got, err, want)
			}
		}
	}
}
