package mount

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// mayBind skips the test where the process may not mount, and says why.
func mayBind(t *testing.T) Mounter {
	t.Helper()
	detection, err := Detect(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := detection.Mounter.(BindMounter); !ok {
		t.Skip("needs to mount, but is " + detection.Reason)
	}
	return BindMounter{}
}

// sandbox is a folder whose mounts are gone before the test framework removes
// it: removing a mounted directory would remove what is mounted there.
func sandbox(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if _, err := CleanBelow(dir); err != nil {
			t.Errorf("leave no mount behind: %v", err)
		}
	})
	return dir
}

func source(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "source")
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "hello"), []byte("world"), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// eachMounter runs the contract of the interface against both ways.
func eachMounter(t *testing.T, test func(t *testing.T, m Mounter, dir string)) {
	t.Run("bind", func(t *testing.T) { test(t, mayBind(t), sandbox(t)) })
	t.Run("symlink", func(t *testing.T) { test(t, SymlinkMounter{}, sandbox(t)) })
}

func TestBindShowsTheSourceAndUnbindRemovesTheTarget(t *testing.T) {
	eachMounter(t, func(t *testing.T, m Mounter, dir string) {
		from, to := source(t, dir), filepath.Join(dir, "target")
		wantBound(t, m, from, to, false)
		for range 2 { // the second call is the idempotent one
			if err := m.Bind(from, to, ReadWrite); err != nil {
				t.Fatalf("Bind: %v", err)
			}
		}
		wantBound(t, m, from, to, true)
		if got, err := os.ReadFile(filepath.Join(to, "hello")); string(got) != "world" {
			t.Errorf("reading through the target: %q, %v", got, err)
		}
		for range 2 {
			if err := m.Unbind(to); err != nil {
				t.Fatalf("Unbind: %v", err)
			}
		}
		wantBound(t, m, from, to, false)
		wantAbsent(t, to)
		wantPresent(t, filepath.Join(from, "hello"))
	})
}

func TestBindUsesAnEmptyDirectoryThatIsThere(t *testing.T) {
	eachMounter(t, func(t *testing.T, m Mounter, dir string) {
		from, to := source(t, dir), filepath.Join(dir, "target")
		mkdir(t, to)
		if err := m.Bind(from, to, ReadWrite); err != nil {
			t.Fatal(err)
		}
		wantBound(t, m, from, to, true)
	})
}

func TestUnbindRemovesAnEmptyDirectory(t *testing.T) {
	eachMounter(t, func(t *testing.T, m Mounter, dir string) {
		to := filepath.Join(dir, "target")
		mkdir(t, to)
		if err := m.Unbind(to); err != nil {
			t.Fatal(err)
		}
		wantAbsent(t, to)
	})
}

func TestWhatIsNotOursStays(t *testing.T) {
	obstacles := map[string]func(t *testing.T, path string){
		"file": func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"directory with entries": func(t *testing.T, path string) { mkdir(t, filepath.Join(path, "precious")) },
	}
	eachMounter(t, func(t *testing.T, m Mounter, dir string) {
		from := source(t, dir)
		for name, place := range obstacles {
			to := filepath.Join(dir, name)
			place(t, to)
			if err := m.Bind(from, to, ReadWrite); !errors.Is(err, ErrOccupied) {
				t.Errorf("Bind over a %s: %v, want ErrOccupied", name, err)
			}
			if err := m.Unbind(to); !errors.Is(err, ErrOccupied) {
				t.Errorf("Unbind of a %s: %v, want ErrOccupied", name, err)
			}
			wantPresent(t, to)
			wantBound(t, m, from, to, false)
		}
	})
}

func TestBindRefusesALinkToSomethingElse(t *testing.T) {
	eachMounter(t, func(t *testing.T, m Mounter, dir string) {
		from, other, to := source(t, dir), filepath.Join(dir, "other"), filepath.Join(dir, "target")
		mkdir(t, other)
		if err := os.Symlink(other, to); err != nil {
			t.Fatal(err)
		}
		if err := m.Bind(from, to, ReadWrite); !errors.Is(err, ErrOccupied) {
			t.Errorf("Bind over a foreign link: %v, want ErrOccupied", err)
		}
	})
}

func TestBindNeedsTheParent(t *testing.T) {
	eachMounter(t, func(t *testing.T, m Mounter, dir string) {
		to := filepath.Join(dir, "missing", "target")
		if err := m.Bind(source(t, dir), to, ReadWrite); !errors.Is(err, ErrNoParent) {
			t.Errorf("Bind without a parent: %v, want ErrNoParent", err)
		}
		if err := m.Unbind(to); err != nil {
			t.Errorf("Unbind without a parent: %v", err)
		}
	})
}

func TestBindLeavesNothingWhenItFails(t *testing.T) {
	m, dir := mayBind(t), sandbox(t)
	to := filepath.Join(dir, "target")
	if err := m.Bind(filepath.Join(dir, "no such source"), to, ReadWrite); err == nil {
		t.Fatal("Bind of a missing source succeeded")
	}
	wantAbsent(t, to)
}

func TestReadOnlyIsEnforcedAndChangedByTheNextCall(t *testing.T) {
	m, dir := mayBind(t), sandbox(t)
	from, to := source(t, dir), filepath.Join(dir, "target")
	write := func(path string) error { return os.WriteFile(filepath.Join(path, "new"), nil, 0o600) }
	for _, step := range []struct {
		access Access
		want   error
	}{{ReadOnly, unix.EROFS}, {ReadWrite, nil}, {ReadOnly, unix.EROFS}} {
		if err := m.Bind(from, to, step.access); err != nil {
			t.Fatal(err)
		}
		if err := write(to); !errors.Is(err, step.want) {
			t.Errorf("write with access %d: %v, want %v", step.access, err, step.want)
		}
	}
	if err := write(from); err != nil {
		t.Errorf("the source became read-only too: %v", err)
	}
}

func TestBindDoesNotStackOnAForeignMount(t *testing.T) {
	m, dir := mayBind(t), sandbox(t)
	from, other, to := source(t, dir), filepath.Join(dir, "other"), filepath.Join(dir, "target")
	mkdir(t, other)
	if err := m.Bind(other, to, ReadWrite); err != nil {
		t.Fatal(err)
	}
	if err := m.Bind(from, to, ReadWrite); !errors.Is(err, ErrOccupied) {
		t.Errorf("Bind over a foreign mount: %v, want ErrOccupied", err)
	}
	wantBound(t, m, from, to, false)
	wantBound(t, m, other, to, true)
}

func TestUnbindRemovesStackedMounts(t *testing.T) {
	m, dir := mayBind(t), sandbox(t)
	from, to := source(t, dir), filepath.Join(dir, "target")
	mkdir(t, to)
	for range 3 {
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Unbind(to); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, to)
}

func TestUnbindSaysThatTheMountIsInUse(t *testing.T) {
	m, dir := mayBind(t), sandbox(t)
	from, to := source(t, dir), filepath.Join(dir, "target")
	if err := m.Bind(from, to, ReadWrite); err != nil {
		t.Fatal(err)
	}
	user, err := os.Open(filepath.Join(to, "hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	if err := m.Unbind(to); !errors.Is(err, ErrBusy) {
		t.Errorf("Unbind of a mount in use: %v, want ErrBusy", err)
	}
	wantBound(t, m, from, to, true)
}

// A process that lost the right to mount must not take a mount for a folder.
func TestSymlinkMounterLeavesMountsAlone(t *testing.T) {
	m, dir := mayBind(t), sandbox(t)
	empty, to := filepath.Join(dir, "empty"), filepath.Join(dir, "target")
	mkdir(t, empty)
	if err := m.Bind(empty, to, ReadWrite); err != nil {
		t.Fatal(err)
	}
	if err := (SymlinkMounter{}).Unbind(to); err == nil {
		t.Error("Unbind of a mount succeeded without unmounting")
	}
	wantBound(t, m, empty, to, true)
}

func TestMountFlagsKeepsWhatIsSet(t *testing.T) {
	got := mountFlags(0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x400 | 0x800 | 0x1000 | 0x2000)
	want := uintptr(unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC |
		unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME | unix.MS_NOSYMFOLLOW)
	if got != want {
		t.Errorf("mountFlags = %#x, want %#x", got, want)
	}
}

func wantBound(t *testing.T, m Mounter, source, target string, want bool) {
	t.Helper()
	got, err := m.IsBound(source, target)
	if err != nil || got != want {
		t.Errorf("IsBound(%s) = %v, %v, want %v", target, got, err, want)
	}
}

func wantAbsent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", path, err)
	}
}

func wantPresent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("%s is gone: %v", path, err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}
