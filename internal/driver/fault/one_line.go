package fault

import "strings"

// OneLine puts the text of joined errors, which have a line each, into one line of a log or an
// event.
func OneLine(text string) string { return strings.Join(strings.FieldsFunc(text, isNewline), "; ") }

func isNewline(r rune) bool { return r == '\n' || r == '\r' }
