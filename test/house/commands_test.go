package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// unquoted is a text with a command whose operands are filled in, or appended, without a shell's quotes.
var unquoted = regexp.MustCompile(`kubectl ([^.\n]*%[-+#0-9\[\]]*[a-z]|([^.\n]* )?$|[^.\n]*=$)`)

// TestCommandsAreQuoted: names in printed commands are those of other parties, and shell.Command alone fills
// them in. Its template has one %s for each operand, none within quotes.
func TestCommandsAreQuoted(t *testing.T) {
	for _, p := range packages(t) {
		if strings.Contains(p.ImportPath, "/test/") || strings.HasSuffix(p.ImportPath, "internal/shell") {
			continue
		}
		for _, name := range p.GoFiles {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			checkCommands(t, files, file)
		}
	}
}

func checkCommands(t *testing.T, files *token.FileSet, file *ast.File) {
	t.Helper()
	templates := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				break
			}
			if x, ok := called.X.(*ast.Ident); !ok || x.Name != "shell" {
				break
			}
			switch called.Sel.Name {
			case "Line":
				t.Errorf("%s: a conversion to shell.Line: use shell.Command", files.Position(n.Pos()))
			case "Command":
				templates[n.Args[0]] = true
				checkTemplate(t, files.Position(n.Pos()), constant(n.Args[0]), len(n.Args)-1)
			}
		case *ast.BinaryExpr, *ast.BasicLit:
			if templates[n] {
				return false
			}
			if text := constant(n); unquoted.MatchString(text) {
				t.Errorf("%s: %q has a command with operands that are not quoted: use shell.Command", files.Position(n.Pos()), text)
			}
			_, isText := n.(*ast.BasicLit)
			return !isText && constant(n) == ""
		}
		return true
	})
}

func checkTemplate(t *testing.T, at token.Position, text string, operands int) {
	t.Helper()
	if strings.Count(text, "%") != operands || strings.Count(text, "%s") != operands {
		t.Errorf("%s: %q for %d operands", at, text, operands)
	}
	for word := range strings.SplitSeq(text, " ") {
		if strings.Contains(word, "%s") && strings.ContainsAny(word, `'\`) {
			t.Errorf("%s: %s: shell.Command quotes the word", at, word)
		}
	}
}

// constant returns a text literal, or literals that are added; empty for other nodes.
func constant(n ast.Node) string {
	switch n := n.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if left, right := constant(n.X), constant(n.Y); left != "" && right != "" {
			return left + right
		}
	}
	return ""
}
