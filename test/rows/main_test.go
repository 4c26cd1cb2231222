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
	named, between := cite(`{"X-5 something", ...} // X-1, H-2b and R-10..R-12; AT-S5, SHA-256, UTF-8`)
	if diff := cmp.Diff([]string{"X-5", "X-1", "H-2b", "R-10", "R-12", "AT-S5"}, named); diff != "" {
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

// Numbers count as IDs at the beginning of a comment or of a name in a test, and in parentheses.
func TestCiteNumbers(t *testing.T) {
	text := strings.Join([]string{
		"// 1.9, 8.21: text about version 1.37 and a third of 4.5",
		"code() // 4.4 step 4",
		"// text (C6), (T1.2 and T2.e), (I3, W1), not 3.3",
		`{"5.3 a name", v}, "1.2", "1.2.3", "2.5 ms", quantile(0.5), t(1.5)`,
	}, "\n")
	var want []string
	for _, row := range []string{"1.9", "8.21", "4.4", "C6", "T1.2", "T2.e", "I3", "W1", "5.3"} {
		if row[0] < 'A' {
			row = controllers + " " + row
		}
		want = append(want, row)
	}
	if diff := cmp.Diff(want, citeNumbers("internal/core/a_test.go", text)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{driver + " 3.1"}, citeNumbers("internal/driver/a.go", "// 3.1: x\nname(\"3.2 y\")")); diff != "" {
		t.Error(diff)
	}
}

// The program fails on a number that its document does not define.
func TestRunFailsOnUnknownNumber(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "docs", "spec", controllers+".md"),
		"C1  contract\n\n### 1.9 Matching\n   W1 PV  Update\n\n## 8. TABLE\n\n| # | Issue |\n|---|---|\n| 21 | fact |\n")
	write(t, filepath.Join(root, "docs", "spec", driver+".md"), "### 3.1 RPCs\n")
	write(t, filepath.Join(root, "docs", "spec", invariants+".md"), "| I3 | no early deletion |\n")
	write(t, filepath.Join(root, "docs", "design.md"), "| T1 | the claim |\n|---|---|\n| 9, 10 | bound |\n\n| T2 | the volume |\n|---|---|\n| a | free |\n")
	write(t, filepath.Join(root, "known_test.go"), "// C1, 1.9: x\n// 8.21: y (T1.10), (T2.a), (W1, I3)\n")
	write(t, filepath.Join(root, "internal", "driver", "known.go"), "// 3.1: x\n")
	var out, errs bytes.Buffer
	if code := run(root, &out, &errs); code != 0 {
		t.Fatalf("returned %d for known numbers: %s", code, errs.String())
	}
	write(t, filepath.Join(root, "internal", "driver", "bad.go"), "// 1.9: of the other document\n")
	write(t, filepath.Join(root, "bad_test.go"), "// 8.22: x (C2), (T1.3), (I4)\n// 1.10, 2.1: y\n")
	if code := run(root, &out, &errs); code != 1 {
		t.Errorf("returned %d for unknown numbers", code)
	}
	for _, row := range []string{"8.22", "C2", "T1.3", "I4", "1.10", "2.1", driver + " 1.9"} {
		if !strings.Contains(errs.String(), row+" is cited in") {
			t.Errorf("%s is not reported:\n%s", row, errs.String())
		}
	}
}
