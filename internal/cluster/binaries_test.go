package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindBinaries(t *testing.T) {
	assets, dir, inPath := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv(assetsEnv, assets)
	t.Setenv("PATH", inPath)
	for _, path := range []string{
		filepath.Join(assets, "everywhere"), filepath.Join(dir, "everywhere"), filepath.Join(inPath, "everywhere"),
		filepath.Join(dir, "in-dir"), filepath.Join(inPath, "in-dir"),
		filepath.Join(inPath, "in-path"),
	} {
		program(t, path, "#!/bin/sh\n")
	}
	if err := os.Mkdir(filepath.Join(dir, "in-path"), 0o755); err != nil { // a folder is not a program
		t.Fatal(err)
	}
	got, err := FindBinaries([]string{"everywhere", "in-dir", "in-path"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := Binaries{
		"everywhere": filepath.Join(assets, "everywhere"),
		"in-dir":     filepath.Join(dir, "in-dir"),
		"in-path":    filepath.Join(inPath, "in-path"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFindBinariesListsAllThatIsMissing(t *testing.T) {
	assets, dir := t.TempDir(), t.TempDir()
	t.Setenv(assetsEnv, assets)
	t.Setenv("PATH", t.TempDir())
	program(t, filepath.Join(dir, "there"), "#!/bin/sh\n")
	_, err := FindBinaries([]string{"one", "there", "two"}, dir)
	if _, ok := errors.AsType[*MissingError](err); !ok {
		t.Fatalf("error = %v, want a MissingError", err)
	}
	for _, want := range []string{"one, two", assets, dir, "PATH", "make cluster-tools", assetsEnv} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "there,") {
		t.Errorf("error names what was found: %v", err)
	}
}

// program writes an executable.
func program(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
