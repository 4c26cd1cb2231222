package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every row that a comment or test cites can be looked up in docs/spec.
func TestCitedRowsResolve(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(filepath.Join("..", ".."), &out, &errs); code != 0 {
		t.Errorf("make rows returns %d:\n%s", code, errs.String())
	}
}

func TestCite(t *testing.T) {
	named, between := cite(`{"X-70 something", ...} // X-1, H-2b and R-10..R-12; AT-S5, SHA-256, UTF-8`)
	if diff := cmp.Diff([]string{"X-70", "X-1", "H-2b", "R-10", "R-12", "AT-S5"}, named); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"R-11", "R-12"}, between); diff != "" {
		t.Error(diff)
	}
}

func TestDefinitions(t *testing.T) {
	got := definitions("| ID | Fact |\n|---|---|\n| C-1 | X-2 is another row |\n| **AT-P1** | fact |\n| H-1 (L) | hole |\nX-3\n")
	if diff := cmp.Diff([]string{"C-1", "AT-P1", "H-1"}, got); diff != "" {
		t.Error(diff)
	}
}

// The program fails on an ID that no document defines, and names the file that cites it.
func TestRunFailsOnUnknownRow(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "docs", "spec", "some.md"), "| C-1 | fact |\n")
	write(t, filepath.Join(root, "a_test.go"), "// C-1 and C-2\n")
	var out, errs bytes.Buffer
	if code := run(root, &out, &errs); code != 1 || !strings.Contains(errs.String(), "C-2 is cited in") || strings.Contains(errs.String(), "C-1") {
		t.Errorf("returned %d: %s", code, errs.String())
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
