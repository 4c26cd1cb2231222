package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// judging are the functions of rules that say what a decision needs. A gather reads plainly; a decision asks
// for what it must read with a verdict.Read.
var judging = regexp.MustCompile(`^(Needs|Decide|View)|ToRead$|^Is.*Refused$`)

// stillJudging are the calls that are left, by file; the list only shrinks.
var stillJudging = map[string][]string{
	"attacher/in_process.go": {"Decide"}, // for the VolumeAttachment that another controller creates
}

// Gathers call no function of rules that judges, and only the method Decide of a task decides.
func TestOnlyDecideDecides(t *testing.T) {
	found := map[string][]string{}
	for _, p := range packages(t) {
		from := room(p.ImportPath)
		if from != "features" && from != "node" || strings.Contains(p.ImportPath, "/explain") {
			continue // explain gathers from all features, and decides as their controllers do
		}
		for _, name := range p.GoFiles {
			file := strings.TrimPrefix(p.ImportPath, module+"/internal/") + "/" + name
			if calls := judgingCalls(t, filepath.Join(p.Dir, name)); len(calls) > 0 {
				found[file] = calls
			}
		}
	}
	files := maps.Clone(found)
	maps.Copy(files, stillJudging)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		for _, call := range found[file] {
			if !slices.Contains(stillJudging[file], call) {
				t.Errorf("%s calls %s: the decision asks for what it must read, and only Decide decides", file, call)
			}
		}
		for _, call := range stillJudging[file] {
			if !slices.Contains(found[file], call) {
				t.Errorf("%s does not call %s any more: take it off the list", file, call)
			}
		}
	}
}

// judgingCalls returns the functions of rules that judge and are used in a file: any of them in a gather, and
// those that decide in all functions but a method Decide.
func judgingCalls(t *testing.T, path string) (calls []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rules := rulesOf(file)
	gathers := strings.HasSuffix(path, "gather.go") || strings.HasSuffix(path, "read.go")
	for _, declared := range file.Decls {
		f, is := declared.(*ast.FuncDecl)
		if !is || f.Recv != nil && f.Name.Name == "Decide" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			selected, is := n.(*ast.SelectorExpr)
			if !is {
				return true
			}
			x, is := selected.X.(*ast.Ident)
			name := selected.Sel.Name
			if is && rules[x.Name] && (gathers && judging.MatchString(name) || strings.HasPrefix(name, "Decide")) &&
				!slices.Contains(calls, name) {
				calls = append(calls, name)
			}
			return true
		})
	}
	return calls
}

// rulesOf returns the names that a file has for packages of rules.
func rulesOf(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, imported := range file.Imports {
		path := strings.Trim(imported.Path.Value, `"`)
		if !strings.HasPrefix(path, module) || !strings.HasSuffix(path, "/rules") {
			continue
		}
		name := "rules"
		if imported.Name != nil {
			name = imported.Name.Name
		}
		names[name] = true
	}
	return names
}
