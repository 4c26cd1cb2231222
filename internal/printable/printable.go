// Package printable escapes the characters of a text that a terminal or a log viewer acts on instead
// of showing them.
//
// Names, events, annotations, parameters and the errors of drivers are written by other parties.
// Without this, their text could move the cursor, set the title of a window, hide a line or reverse
// its direction where an administrator reads it.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text escapes every character but newline and tab that has no glyph of its own: the controls C0 and
// C1, DEL, bidi overrides and other format characters, separators of lines, and bytes that are not
// UTF-8. An escape is that of a Go string, such as \x1b or \u202e.
func Text(text string) string {
	return replace(text, func(r rune) bool { return r == '\n' || r == '\t' || isShown(r) }, escape)
}

// Line escapes newline and tab as well, for a text that must stay in one line.
func Line(text string) string { return replace(text, isShown, escape) }

// JSON escapes the same characters as [Text] in encoded JSON. A decoder gives the same values as
// before.
func JSON(text string) string {
	return replace(text, func(r rune) bool { return r == '\n' || r == '\t' || isShown(r) }, escapeJSON)
}

// isShown reports whether a character is a graphic one. Of the spaces, those that a font has are.
func isShown(r rune) bool { return unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) }

// replace writes what isKept reports false for by means of escapeOf. It returns the given text
// where there is nothing to escape.
func replace(text string, isKept func(rune) bool, escapeOf func(part string) string) string {
	var out strings.Builder
	from := 0 // start of what is not yet in out
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if (r != utf8.RuneError || size > 1) && isKept(r) {
			i += size
			continue
		}
		out.WriteString(text[from:i])
		out.WriteString(escapeOf(text[i : i+size]))
		i += size
		from = i
	}
	if from == 0 {
		return text
	}
	out.WriteString(text[from:])
	return out.String()
}

// escape returns the escape of one character, or of one byte that is not UTF-8.
func escape(part string) string {
	quoted := strconv.QuoteToASCII(part)
	return quoted[1 : len(quoted)-1]
}

// firstPair is the first character that JSON escapes as two: a surrogate pair of UTF-16.
const firstPair = 0x10000

// escapeJSON returns the escape of one character in a JSON string. JSON has none for a byte.
func escapeJSON(part string) string {
	r, _ := utf8.DecodeRuneInString(part)
	if r >= firstPair {
		return fmt.Sprintf(`\u%04x\u%04x`, 0xd800+(r-firstPair)>>10, 0xdc00+(r-firstPair)&0x3ff)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
