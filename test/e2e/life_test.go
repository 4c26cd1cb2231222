package e2e

import (
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/purser-csi/purser/test/e2e/life"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// live runs the steps.
func live(t *testing.T, steps []life.Step) {
	t.Helper()
	for _, step := range steps {
		seen, err := step.Run(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", step.Name, err)
		}
		t.Logf("%s: %s", step.Name, seen)
		if width := utf8.RuneCountInString(seen); width > shownWidth {
			t.Errorf("%d characters, more than the demo has room for", width)
		}
	}
}

// shownWidth is what a line of the demo has left of 80 columns.
const shownWidth = 66

// A volume is created, used and deleted, and then `up` gets Ctrl-C.
func TestLife(t *testing.T) {
	t.Parallel()
	s := start(t, stage.Config{DataDir: dataDir(t)})
	l := &life.Life{Stage: s, Examples: examples(t)}
	live(t, l.Begin())
	if os.Geteuid() == 0 {
		t.Log(mustBeMount(t, l.Target()))
	} else {
		mustBeLink(t, l.Target())
		t.Log("not root: bind mounts are not tried here")
	}
	live(t, l.End())
	stop(t, s)
	if folders(t, s) != 0 {
		t.Errorf("%d volumes are left on disk", folders(t, s))
	}
}

// The same steps for a user without permission to mount.
func TestLifeWithoutMounting(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not root: TestLife is without mounting already")
	}
	dir := dataDir(t)
	s := start(t, stage.Config{DataDir: dir, Credential: unprivileged(t, dir)})
	if !strings.Contains(s.Output(), "symbolic links") {
		t.Errorf("does not say how volumes are published:\n%s", s.Output())
	}
	possible, err := (&life.Copies{Stage: s}).Possible(t.Context())
	must(t, err)
	if possible {
		t.Error("the demo would not skip its chapter on snapshots, and the driver takes none of directories")
	}
	l := &life.Life{Stage: s, Examples: examples(t)}
	live(t, l.Begin())
	mustBeLink(t, l.Target())
	live(t, l.End())
}

// After Ctrl-C with a volume in use, the mount is removed and the data is kept.
func TestStopInUse(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := start(t, stage.Config{DataDir: dir})
	l := &life.Life{Stage: s, Examples: examples(t)}
	live(t, l.Begin())
	stop(t, s)
	l.Stage = start(t, stage.Config{DataDir: dir})
	if _, err := l.ReadBack(t.Context()); err != nil {
		t.Error(err)
	}
}

// unprivileged owns the folder and runs programs without rights.
func unprivileged(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	account, err := user.Lookup("nobody")
	if err != nil {
		t.Skipf("no user without rights here: %v", err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	must(t, err)
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	must(t, err)
	must(t, os.Chown(dir, int(uid), int(gid)))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func mustBeLink(t *testing.T, path string) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("%s is not a symbolic link: %v, %v", path, info, err)
	}
}
