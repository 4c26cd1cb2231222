package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFileReplaces(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "file")
	for _, want := range []string{"first", "second"} {
		if err := WriteFile(path, temp, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("read %q, %v, want %q", got, err, want)
		}
	}
	wantEmpty(t, temp)
}

func TestWriteFileLeavesNothingWhenItFails(t *testing.T) {
	temp := t.TempDir()
	if err := WriteFile(filepath.Join(t.TempDir(), "missing", "file"), temp, []byte("x")); err == nil {
		t.Error("writing into a missing directory succeeded")
	}
	wantEmpty(t, temp)
}

func TestRenameMovesADirectory(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	if err := os.MkdirAll(filepath.Join(from, "inside"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Rename(from, to); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "inside")); err != nil {
		t.Error(err)
	}
}

func TestRemoveOfNothing(t *testing.T) {
	if err := Remove(filepath.Join(t.TempDir(), "missing")); err != nil {
		t.Error(err)
	}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left in %s: %v, %v", dir, entries, err)
	}
}
