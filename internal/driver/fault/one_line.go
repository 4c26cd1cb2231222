package fault

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// OneLine puts the text of joined errors, which have a line each, into one line of a log or an
// event.
func OneLine(text string) string { return strings.Join(strings.FieldsFunc(text, isNewline), "; ") }

// Clip shortens a text to about a number of bytes, and says how much was left out: a request can have
// megabytes, and is echoed in logs and errors.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes more)", text[:end], len(text)-end)
}

func isNewline(r rune) bool { return r == '\n' || r == '\r' }
