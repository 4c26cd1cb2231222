package printable

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, tc := range []struct{ name, in, text, line string }{
		{"plain", "a claim, größer: 容量 🚀", "a claim, größer: 容量 🚀", "a claim, größer: 容量 🚀"},
		{"colour", "\x1b[31mred", `\x1b[31mred`, `\x1b[31mred`},
		{"title of a window", "\x1b]0;owned\x07", `\x1b]0;owned\a`, `\x1b]0;owned\a`},
		{"newline and tab", "a\n\tb", "a\n\tb", `a\n\tb`},
		{"carriage return", "ok\rno", `ok\rno`, `ok\rno`},
		{"DEL and backspace", "a\x7f\b", `a\x7f\b`, `a\x7f\b`},
		{"C1: CSI in one character", "\u009b2J", `\u009b2J`, `\u009b2J`},
		{"C1 as a byte that is not UTF-8", "\x9b2J", `\x9b2J`, `\x9b2J`},
		{"bidi override", "abc\u202edcb\u2066", `abc\u202edcb\u2066`, `abc\u202edcb\u2066`},
		{"invisible", "a\u200bb\ufeff\U000e0041", `a\u200bb\ufeff\U000e0041`, `a\u200bb\ufeff\U000e0041`},
		{"separators of lines", "a\u2028b\u2029", `a\u2028b\u2029`, `a\u2028b\u2029`},
		{"broken UTF-8 at the end", "abc\xe5\xae", `abc\xe5\xae`, `abc\xe5\xae`},
		{"the replacement character itself", "a\ufffd", "a\ufffd", "a\ufffd"},
	} {
		if got := Text(tc.in); got != tc.text {
			t.Errorf("%s: Text gives %q, want %q", tc.name, got, tc.text)
		}
		if got := Line(tc.in); got != tc.line {
			t.Errorf("%s: Line gives %q, want %q", tc.name, got, tc.line)
		}
	}
}

// FuzzPrintable: no escaped text has a character that a terminal acts on, a second pass changes
// nothing, and JSON has the same value as before.
func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"plain", "\x1b]0;x\x07", "\u202e\u0085\x7f", "\xff\xfe", "\U000e0041\n\t"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		text, line := Text(in), Line(in)
		for _, got := range []string{text, line} {
			if !utf8.ValidString(got) || Text(got) != got {
				t.Errorf("%q is left of %q", got, in)
			}
		}
		if strings.ContainsAny(line, "\n\t") {
			t.Errorf("Line gives %q", line)
		}
		encoded, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		escaped := JSON(string(encoded))
		var before, after string
		if json.Unmarshal(encoded, &before) != nil || json.Unmarshal([]byte(escaped), &after) != nil || before != after {
			t.Errorf("%s decodes to %q, %s to %q", encoded, before, escaped, after)
		}
		if Text(escaped) != escaped {
			t.Errorf("JSON gives %q", escaped)
		}
	})
}
