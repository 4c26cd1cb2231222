package main

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/token"
	"slices"
	"strings"
	"unicode/utf8"
)

// The longest line, and the columns of a tab.
const (
	mostColumns = 120
	tabColumns  = 4
)

func width(line []byte) int {
	return utf8.RuneCount(line) + (tabColumns-1)*bytes.Count(line, []byte{'\t'})
}

// breakLines breaks the long lines of a file, one after the other. A line that cannot be broken stays.
func breakLines(path string, text []byte) ([]byte, error) {
	s, err := parse(path, text)
	if err != nil || ast.IsGenerated(s.tree) {
		return text, err
	}
	for line := 1; ; {
		from, to, ok := s.line(line)
		if !ok {
			return s.text, nil
		}
		if width(s.text[from:to]) <= mostColumns {
			line++
			continue
		}
		edits := s.breakLine(line, from, to)
		if edits == nil {
			line++
			continue
		}
		changed, err := format.Source(apply(s.text, edits))
		if err != nil {
			return nil, err
		}
		if s, err = parse(path, changed); err != nil {
			return nil, err
		}
	}
}

// line returns where a line begins and ends.
func (s source) line(n int) (from, to int, ok bool) {
	file := s.files.File(s.tree.Pos())
	if n > file.LineCount() {
		return 0, 0, false
	}
	from = file.Offset(file.LineStart(n))
	if end := bytes.IndexByte(s.text[from:], '\n'); end >= 0 {
		return from, from + end, true
	}
	return from, len(s.text), true
}

// edit puts a text in place of another.
type edit struct {
	from, to int
	text     string
}

func apply(text []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return b.from - a.from })
	out := slices.Clone(text)
	for _, e := range edits {
		out = slices.Concat(out[:e.from], []byte(e.text), out[e.to:])
	}
	return out
}

// breakLine returns the edits that shorten a line, or none.
func (s source) breakLine(line, from, to int) []edit {
	if edits := s.liftComment(line, from, to); edits != nil {
		return edits
	}
	on := s.partsOf(from, to)
	if edits := s.breakOperation(on.operations, from, to, token.LAND, token.LOR); edits != nil {
		return edits
	}
	for _, way := range []func(list, int, int) []edit{s.spreads, s.opens} {
		for _, l := range on.lists {
			if edits := way(l, from, to); edits != nil {
				return edits
			}
		}
	}
	if edits := s.splitText(on.texts, from); edits != nil {
		return edits
	}
	return s.breakOperation(on.operations, from, to, token.ADD)
}

// parts are what a line has, in whole or in part, from the outermost to the innermost.
type parts struct {
	lists      []list
	texts      []*ast.BasicLit // wholly on the line
	operations []*ast.BinaryExpr
}

func (s source) partsOf(from, to int) (on parts) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		if n == nil || s.offset(n.Pos()) > to || s.offset(n.End()) < from {
			return false
		}
		if l, ok := s.listOf(n); ok {
			on.lists = append(on.lists, l)
		}
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING && s.offset(n.Pos()) >= from && s.offset(n.End()) <= to {
				on.texts = append(on.texts, n)
			}
		case *ast.BinaryExpr:
			on.operations = append(on.operations, n)
		}
		return true
	})
	return on
}

// liftComment puts the comment behind a line above it, or below where a block begins.
func (s source) liftComment(line, from, to int) []edit {
	for _, group := range s.tree.Comments {
		c := group.List[0]
		at := s.offset(c.Pos())
		if s.files.Position(c.Pos()).Line != line || !strings.HasPrefix(c.Text, "//") {
			continue
		}
		code := bytes.TrimSpace(s.text[from:at])
		if len(code) == 0 || strings.HasPrefix(c.Text, "//nolint") {
			return nil
		}
		end := from + len(bytes.TrimRight(s.text[from:at], " \t"))
		if last := code[len(code)-1]; last == '{' || last == ':' { // it is about what follows
			return []edit{{end, to, "\n" + c.Text}}
		}
		return []edit{{from, from, c.Text + "\n"}, {end, to, ""}}
	}
	return nil
}
