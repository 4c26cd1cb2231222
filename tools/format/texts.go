package main

import (
	"go/ast"
	"go/token"
	"strconv"
)

// splitText splits the text that reaches over the end of the line, behind its last space that fits.
// The rest goes to the text that is added to it, if there is one.
func (s source) splitText(texts []*ast.BasicLit, from int) []edit {
	for _, t := range texts {
		begin, end := s.offset(t.Pos()), s.offset(t.End())
		if t.Value[0] != '"' || width(s.text[from:end]) < mostColumns-len(`")},`) {
			continue
		}
		at := lastSpace(t.Value, mostColumns-len(`" +`)-width(s.text[from:begin]))
		if at == 0 {
			continue
		}
		if next := s.addedTo(t); next != nil && s.files.Position(next.Pos()).Line > s.files.Position(t.Pos()).Line {
			rest := t.Value[at : len(t.Value)-1]
			behind := s.offset(next.Pos()) + 1
			return []edit{{behind, behind, rest}, {begin + at, end - 1, ""}}
		}
		return []edit{{begin + at, begin + at, "\" +\n\""}}
	}
	return nil
}

// lastSpace returns where to split a quoted text within a number of bytes, behind a space; 0 for
// nowhere.
func lastSpace(text string, room int) (at int) {
	for i := 2; i < min(room, len(text)-2); i++ {
		if _, err := strconv.Unquote(text[:i+1] + `"`); text[i] == ' ' && err == nil {
			at = i + 1
		}
	}
	return at
}

// addedTo is the text that stands behind the + that follows a text.
func (s source) addedTo(t *ast.BasicLit) (next *ast.BasicLit) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		if n == nil || n.Pos() > t.Pos() || n.End() < t.End() {
			return false
		}
		if sum, ok := n.(*ast.BinaryExpr); ok && sum.Op == token.ADD && rightmost(sum.X) == t {
			if text, isText := leftmost(sum.Y).(*ast.BasicLit); isText && text.Kind == token.STRING && text.Value[0] == '"' {
				next = text
			}
		}
		return true
	})
	return next
}

func rightmost(e ast.Expr) ast.Expr {
	for {
		sum, ok := e.(*ast.BinaryExpr)
		if !ok {
			return e
		}
		e = sum.Y
	}
}

func leftmost(e ast.Expr) ast.Expr {
	for {
		sum, ok := e.(*ast.BinaryExpr)
		if !ok {
			return e
		}
		e = sum.X
	}
}
