package main

import (
	"bytes"
	"go/ast"
	"go/token"
	"slices"
)

// list is what stands between two brackets, with commas between its elements.
type list struct {
	open, close int // offsets of the brackets
	elements    []ast.Node
}

// listOf returns the list of a call, a literal or a function's parameters.
func (s source) listOf(n ast.Node) (l list, ok bool) {
	var begin, end token.Pos
	switch n := n.(type) {
	case *ast.CallExpr:
		begin, end = n.Lparen, n.Rparen
		for _, e := range n.Args {
			l.elements = append(l.elements, e)
		}
	case *ast.CompositeLit:
		begin, end = n.Lbrace, n.Rbrace
		for _, e := range n.Elts {
			l.elements = append(l.elements, e)
		}
	case *ast.FuncType:
		begin, end = n.Params.Opening, n.Params.Closing
		for _, e := range n.Params.List {
			l.elements = append(l.elements, e)
		}
	default:
		return l, false
	}
	l.open, l.close = s.offset(begin), s.offset(end)
	return l, begin.IsValid() && len(l.elements) > 0
}

const (
	// mostPrefix is how far an inner list may begin that is opened instead of the one around it.
	mostPrefix = 100
	// minimum is what must stand in a list for a break to be worth it.
	minimum = 12
)

// opens returns the edits that put what stands in a list that begins on the line onto a line of its
// own. A last element that is most of the list is opened in its place. A list that goes on below the
// line stays: an inner one is opened.
func (s source) opens(l list, from, to int) []edit {
	if l.open < from || l.open >= to || l.close > to || s.brokenAfter(l.open) {
		return nil
	}
	if inner, ok := s.lastList(l); ok && 2*(inner.close-inner.open) > l.close-l.open {
		if edits := s.opens(inner, from, to); edits != nil && width(s.text[from:inner.open+1]) <= mostPrefix {
			return edits
		}
	}
	if width(s.text[from:l.open+1]) > mostColumns || width(s.text[l.open:l.close]) < minimum {
		return nil
	}
	end := ",\n"
	last := s.offset(l.elements[len(l.elements)-1].End())
	if tail := bytes.TrimSpace(s.text[last:l.close]); len(tail) > 0 && tail[len(tail)-1] == ',' {
		end = "\n"
	}
	return []edit{{l.open + 1, l.open + 1, "\n"}, {l.close, l.close, end}}
}

// lastList is the list of the last element.
func (s source) lastList(l list) (inner list, ok bool) {
	last := l.elements[len(l.elements)-1]
	if value, isPair := last.(*ast.KeyValueExpr); isPair {
		last = value.Value
	}
	return s.listOf(last)
}

func (s source) brokenAfter(at int) bool {
	rest := bytes.TrimLeft(s.text[at+1:], " \t")
	return len(rest) > 0 && rest[0] == '\n'
}

// spreads returns the edit that breaks a line of elements, of a list that is not all on it, before the last
// element that begins on the line and fits.
func (s source) spreads(l list, from, to int) []edit {
	if l.open >= from && l.close <= to {
		return nil
	}
	best := 0
	begin := from + len(s.text[from:to]) - len(bytes.TrimLeft(s.text[from:to], "\t "))
	for i, e := range l.elements {
		at := s.offset(e.Pos())
		switch {
		case at <= begin || at >= to || i == 0:
		case best == 0 || width(s.text[from:at]) <= mostColumns:
			best = at
		}
	}
	if best == 0 {
		return nil
	}
	return []edit{{best, best, "\n"}}
}

// breakOperation breaks after the last of some operators that fits, of those that bind least.
func (s source) breakOperation(all []*ast.BinaryExpr, from, to int, operators ...token.Token) []edit {
	best, strength := 0, 0
	for _, b := range all {
		at := s.offset(b.OpPos)
		end := at + len(b.Op.String())
		if !slices.Contains(operators, b.Op) || at < from || end >= to || width(s.text[from:end]) > mostColumns {
			continue
		}
		if s.brokenAfter(end-1) || s.inFunction(b, from) {
			continue
		}
		if strength == 0 || b.Op.Precedence() < strength || b.Op.Precedence() == strength && end > best {
			best, strength = end, b.Op.Precedence()
		}
	}
	if best == 0 {
		return nil
	}
	return []edit{{best, best, "\n"}}
}

// inFunction reports whether an expression is an argument: the call is broken instead.
func (s source) inFunction(b *ast.BinaryExpr, from int) bool {
	inside := false
	ast.Inspect(s.tree, func(n ast.Node) bool {
		if n == nil || n.Pos() > b.Pos() || n.End() < b.End() {
			return false
		}
		if l, ok := s.listOf(n); ok && l.open >= from && l.open < s.offset(b.Pos()) && l.close >= s.offset(b.End()) {
			inside = true
		}
		return true
	})
	return inside
}
