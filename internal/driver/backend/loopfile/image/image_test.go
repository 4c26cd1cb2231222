package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

const mebi = 1 << 20

func sparse(t *testing.T, bytes int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := Create(path, bytes); err != nil {
		t.Fatal(err)
	}
	return path
}

func put(t *testing.T, path string, at int64, content []byte) {
	t.Helper()
	err := with(path, func(f *os.File) error {
		_, err := f.WriteAt(content, at)
		return errors.Join(err, f.Sync())
	})
	if err != nil {
		t.Fatal(err)
	}
}

func measure(t *testing.T, path string) Space {
	t.Helper()
	space, err := Measure(path)
	if err != nil {
		t.Fatal(err)
	}
	return space
}

func TestSparseAndThick(t *testing.T) {
	path := sparse(t, 8*mebi)
	if s := measure(t, path); s.Size != 8*mebi || s.Allocated != 0 {
		t.Errorf("sparse: %+v", s)
	}
	if err := Allocate(path, 0); err != nil {
		t.Skipf("needs a temporary folder whose filesystem can allocate: %v", err)
	}
	if s := measure(t, path); s.Size != 8*mebi || s.Allocated < 8*mebi {
		t.Errorf("thick: %+v", s)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestResizeNeverShrinks(t *testing.T) {
	path := sparse(t, 2*mebi)
	for _, step := range []struct{ ask, want int64 }{{3 * mebi, 3 * mebi}, {mebi, 3 * mebi}} {
		if err := Resize(path, step.ask); err != nil {
			t.Fatal(err)
		}
		if s := measure(t, path); s.Size != step.want {
			t.Errorf("resized to %d: %+v", step.ask, s)
		}
	}
}

func TestIsBlank(t *testing.T) {
	tests := map[string]struct {
		prepare func(t *testing.T, path string)
		want    bool
	}{
		"a hole":                  {func(*testing.T, string) {}, true},
		"zeros that were written": {func(t *testing.T, p string) { put(t, p, mebi, make([]byte, 3*mebi)) }, true},
		"allocated":               {func(_ *testing.T, p string) { _ = Allocate(p, 0) }, true},
		"a byte at the start":     {func(t *testing.T, p string) { put(t, p, 0, []byte{1}) }, false},
		"the last byte":           {func(t *testing.T, p string) { put(t, p, 8*mebi-1, []byte{1}) }, false},
		"a byte after zeros":      {func(t *testing.T, p string) { put(t, p, 4096, append(make([]byte, 2*mebi), 1)) }, false},
		"erased": {func(t *testing.T, p string) {
			put(t, p, 0, []byte{1})
			if err := Erase(p); err != nil {
				t.Fatal(err)
			}
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := sparse(t, 8*mebi)
			test.prepare(t, path)
			got, err := IsBlank(t.Context(), path)
			if err != nil || got != test.want {
				t.Errorf("IsBlank = %v, %v, want %v", got, err, test.want)
			}
			if s := measure(t, path); s.Size != 8*mebi {
				t.Errorf("the size became %d", s.Size)
			}
		})
	}
}

func TestAFullCopyKeepsContentAndHoles(t *testing.T) {
	from := sparse(t, 64*mebi)
	put(t, from, 0, bytes.Repeat([]byte("begin"), 10000))
	put(t, from, 40*mebi+77, bytes.Repeat([]byte("middle"), 10000))
	put(t, from, 64*mebi-3, []byte("end"))
	source, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	to := filepath.Join(filepath.Dir(from), "copy")
	if err := source.CopyFully(t.Context(), to, always); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy differs (%d bytes of %d, %v)", len(got), len(want), err)
	}
	if s := measure(t, to); s.Allocated > 2*mebi {
		t.Errorf("the copy takes %d bytes: its holes were filled", s.Allocated)
	}
}

// The name of a source may go while it is copied: its volume was deleted.
func TestACopyNeedsNoName(t *testing.T) {
	from := sparse(t, mebi)
	put(t, from, 0, []byte("content"))
	source, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if err := os.Remove(from); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := source.CopyFully(t.Context(), to, always); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.HasPrefix(got, []byte("content")) {
		t.Errorf("%.10q, %v", got, err)
	}
}

func TestACancelledCopyEnds(t *testing.T) {
	from := sparse(t, mebi)
	put(t, from, 0, []byte("content"))
	source, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := source.CopyFully(ctx, filepath.Join(t.TempDir(), "copy"), always); !errors.Is(err, context.Canceled) {
		t.Errorf("copy: %v, want cancelled", err)
	}
}

func TestMeasureRefusesWhatIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	if s, err := Measure(path); err == nil {
		t.Errorf("a link was measured: %+v", s)
	}
}

func TestCanShareLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	shared, err := CanShare(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the temporary folder shares space: %v", shared)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

func always(int64) error { return nil }

// A full copy asks before each part, and ends when a part is refused.
func TestAFullCopyAsks(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	const data = step + 4096
	if err := errors.Join(os.WriteFile(from, make([]byte, data), 0o600), os.Truncate(from, 4*step)); err != nil {
		t.Fatal(err)
	}
	source, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if bytes, err := source.Data(t.Context()); err != nil || bytes != data {
		t.Errorf("Data = %d, %v, want %d", bytes, err, data)
	}
	var asked []int64
	full := errors.New("full")
	err = source.CopyFully(t.Context(), to, func(bytes int64) error {
		asked = append(asked, bytes)
		if len(asked) > 1 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || len(asked) != 2 || asked[0] != step || asked[1] != 4096 {
		t.Errorf("asked for %v, %v", asked, err)
	}
	if space, err := Measure(to); err != nil || space.Allocated > step+mebi {
		t.Errorf("wrote %+v, %v", space, err)
	}
}

// The kernel copies fewer bytes than requested when a signal arrives. The rest of the part is
// copied without asking again.
func TestAPartThatIsCopiedInPiecesIsAskedForOnce(t *testing.T) {
	var asked []int64
	var copied int64
	interrupted := false
	err := inParts(t.Context(), 0, step+4096, func(bytes int64) error {
		asked = append(asked, bytes)
		return nil
	}, func(at, bytes int64) (int, error) {
		if at != copied {
			t.Errorf("copies from %d after %d", at, copied)
		}
		if interrupted = !interrupted; interrupted {
			return -1, unix.EINTR
		}
		n := min(bytes, step/4)
		copied += n
		return int(n), nil
	})
	if err != nil || copied != step+4096 || !slices.Equal(asked, []int64{step, 4096}) {
		t.Errorf("asked for %v, copied %d, %v", asked, copied, err)
	}
}

// Erase never makes an image smaller, not even briefly, since the program can be killed at any
// time. The seals of the file make the kernel refuse a change of its size.
func TestEraseKeepsTheSize(t *testing.T) {
	number, err := unix.MemfdCreate("image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Skipf("needs memfd_create: %v", err)
	}
	file := os.NewFile(uintptr(number), "image")
	defer file.Close()
	_, err = file.WriteAt([]byte("half a filesystem"), mebi)
	if err = errors.Join(err, file.Truncate(4*mebi)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", number)
	if err := Erase(path); err != nil {
		t.Fatal(err)
	}
	if blank, err := IsBlank(t.Context(), path); err != nil || !blank {
		t.Errorf("IsBlank = %v, %v", blank, err)
	}
}

func TestOverwrite(t *testing.T) {
	path := sparse(t, 4*mebi)
	put(t, path, 77, bytes.Repeat([]byte("x"), 2*mebi))
	if err := with(path, overwrite); err != nil {
		t.Fatal(err)
	}
	if blank, err := IsBlank(t.Context(), path); err != nil || !blank {
		t.Errorf("IsBlank = %v, %v", blank, err)
	}
	if s := measure(t, path); s.Size != 4*mebi {
		t.Errorf("the size became %d", s.Size)
	}
}
