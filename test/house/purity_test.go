package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// clockCalls read or wait for the wall clock.
var clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// checkPurity finds impure code that imports do not show: reads of the clock, and goroutines.
func checkPurity(t *testing.T, p pkg) {
	t.Helper()
	files := token.NewFileSet()
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", files.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockCalls, n.Sel.Name) {
					t.Errorf("%s uses time.%s: time is a parameter", files.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestDecideCallsRulesAlone: the Decide of a task returns what one function of a package of rules says of
// its parameters. An effect would happen with each look at a key.
func TestDecideCallsRulesAlone(t *testing.T) {
	checked := 0
	for _, p := range packages(t) {
		if filepath.Base(p.ImportPath) == "rules" {
			continue
		}
		files := token.NewFileSet()
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, declared := range file.Decls {
				f, ok := declared.(*ast.FuncDecl)
				if !ok || f.Recv == nil || f.Name.Name != "Decide" {
					continue
				}
				checked++
				if !returnsRule(file, f) {
					t.Errorf("%s does more than to call a function of rules", files.Position(f.Pos()))
				}
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d tasks were found", checked)
	}
}

// returnsRule reports whether a method returns one call of a package of rules, and makes no other.
func returnsRule(file *ast.File, f *ast.FuncDecl) bool {
	if len(f.Body.List) != 1 {
		return false
	}
	calls, rules := 0, 0
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		calls++
		if of, ok := call.Fun.(*ast.SelectorExpr); ok {
			if x, ok := of.X.(*ast.Ident); ok && isRules(file, x.Name) {
				rules++
			}
		}
		return true
	})
	_, returns := f.Body.List[0].(*ast.ReturnStmt)
	return returns && calls == 1 && rules == 1
}

// isRules reports whether a file imports a package of rules under a name.
func isRules(file *ast.File, name string) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		named := i.Name != nil && i.Name.Name == name || i.Name == nil && name == "rules"
		return named && strings.HasSuffix(strings.Trim(i.Path.Value, `"`), "/rules")
	})
}
