package main

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A case has the body of a function, and what becomes of it.
func TestBreakLines(t *testing.T) {
	const long = "aVariableWhoseNameIsLongEnough1234"
	for name, tc := range map[string]struct{ before, after string }{
		"a line that fits stays": {"f(a, b)", "f(a, b)"},
		"arguments stand between the brackets": {
			"aFunction(" + long + ", " + long + ", " + long + ")",
			"aFunction(\n\t" + long + ", " + long + ", " + long + ",\n)",
		},
		"too many arguments are spread": {
			"f(" + long + ", " + long + ", " + long + ", " + long + ", xs...)",
			"f(\n\t" + long + ", " + long + ", " + long + ",\n\t" + long + ", xs...,\n)",
		},
		"a last element that is most of the list is opened": {
			"aVariable.Field = append(aVariable.Field, T{A: " + long + ", B: " + long + ", C: c})",
			"aVariable.Field = append(aVariable.Field, T{\n\tA: " + long + ", B: " + long + ", C: c,\n})",
		},
		"a condition breaks at what binds least": {
			"if " + long + " && " + long + " || " + long + " && d {\n}",
			"if " + long + " && " + long + " ||\n\t" + long + " && d {\n}",
		},
		"a text splits at a space": {
			`x = "` + strings.Repeat("word ", 30) + `end"`,
			`x = "` + strings.Repeat("word ", 21) + "\" +\n\t\"" + strings.Repeat("word ", 9) + `end"`,
		},
		"the rest of a text goes to the next one": {
			`x = "` + strings.Repeat("word ", 24) + "\" +\n\t\"end\"",
			`x = "` + strings.Repeat("word ", 21) + "\" +\n\t\"" + strings.Repeat("word ", 3) + `end"`,
		},
		"a comment goes above":         {"x := 1 // " + long + long + long + long, "// " + long + long + long + long + "\nx := 1"},
		"a comment goes below a brace": {"if a { // " + long + long + long + long + "\n}", "if a {\n\t// " + long + long + long + long + "\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := breakLines("x.go", wrap(tc.before))
			if err != nil {
				t.Fatal(err)
			}
			if want := string(wrap(tc.after)); string(got) != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func wrap(body string) []byte {
	return fmt.Appendf(nil, "package x\n\nfunc g() {\n\t%s\n}\n", strings.ReplaceAll(body, "\n", "\n\t"))
}

// The program itself has the same parts before and after, no long line, and stays when it is done again.
func TestTheProgramMeansTheSame(t *testing.T) {
	for _, folder := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			before, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			after, err := breakLines(path, before)
			if err != nil {
				return err
			}
			if a, b := meaning(before), meaning(after); a != b {
				t.Errorf("%s: the parts differ", path)
			}
			for i, line := range bytes.Split(after, []byte{'\n'}) {
				if width(line) > mostColumns {
					t.Errorf("%s:%d has %d columns", path, i+1, width(line))
				}
			}
			if again, err := breakLines(path, after); err != nil || !bytes.Equal(after, again) {
				t.Errorf("%s: changes when it is done again: %v", path, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// meaning is the parts of a file without what a break changes: added texts are one text, and a comma
// before a closing bracket and the end of a line count for nothing.
func meaning(text []byte) string {
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile("", files.Base(), len(text)), text, nil, 0)
	var parts []string
	for {
		_, kind, literal := s.Scan()
		n := len(parts)
		switch kind {
		case token.EOF:
			return strings.Join(parts, " ")
		case token.SEMICOLON:
			continue
		case token.RPAREN, token.RBRACE:
			if parts[n-1] == "," {
				parts = parts[:n-1]
			}
		case token.STRING:
			literal, _ = strconv.Unquote(literal)
			if literal = strconv.Quote(literal); n > 1 && parts[n-1] == "+" && strings.HasPrefix(parts[n-2], `"`) {
				parts[n-2] = strings.TrimSuffix(parts[n-2], `"`) + strings.TrimPrefix(literal, `"`)
				parts = parts[:n-1]
				continue
			}
		default:
		}
		if literal == "" {
			literal = kind.String()
		}
		parts = append(parts, literal)
	}
}
