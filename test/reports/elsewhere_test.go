package reports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// TestElsewhere fails if a test that an elsewhere.txt names does not exist.
func TestElsewhere(t *testing.T) {
	root, err := stage.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*/elsewhere.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
			if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
				continue
			}
			tests := strings.Fields(line[strings.LastIndex(line, ": ")+1:])
			if strings.Count(line, ": ") < 2 || len(tests) == 0 || len(tests)%2 != 0 {
				t.Errorf("%s:%d: say `NAME: what must hold: path TestName ...`", file, i+1)
				continue
			}
			for j := 0; j < len(tests); j += 2 {
				if !hasTest(t, filepath.Join(root, tests[j]), tests[j+1]) {
					t.Errorf("%s:%d: %s has no %s", file, i+1, tests[j], tests[j+1])
				}
			}
		}
	}
}

// hasTest reports whether a package has a test, or a subtest or row after a slash of its name.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	name, row, _ := strings.Cut(name, "/")
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found, rowFound := false, row == ""
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rowFound = rowFound || strings.Contains(string(content), strings.ReplaceAll(row, "_", " "))
		parsed, err := parser.ParseFile(token.NewFileSet(), file, content, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			found = found || ok && f.Recv == nil && f.Name.Name == name
		}
	}
	return found && rowFound
}
