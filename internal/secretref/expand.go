package secretref

import "strings"

// expand replaces $x and ${x} by mapping(x), like os.Expand, which the core may not import.
// Existing classes rely on its corner cases: "$$" is the token "$", an unterminated "${" and "${}"
// disappear, and a dollar before any other character stays.
func expand(template string, mapping func(string) string) string {
	var out strings.Builder
	rest := template
	for {
		before, after, found := strings.Cut(rest, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		token, width := tokenAt(after)
		switch {
		case token != "":
			out.WriteString(mapping(token))
		case width == 0:
			out.WriteByte('$')
		}
		rest = after[width:]
	}
}

// tokenAt returns the token after a dollar and its width with braces. An empty token with a width
// is bad syntax.
func tokenAt(s string) (string, int) {
	switch {
	case s == "":
		return "", 0
	case s[0] == '{':
		return braced(s)
	case isSpecial(s[0]):
		return s[:1], 1
	}
	end := 0
	for end < len(s) && isWord(s[end]) {
		end++
	}
	return s[:end], end
}

func braced(s string) (string, int) {
	if len(s) > 2 && isSpecial(s[1]) && s[2] == '}' {
		return s[1:2], 3
	}
	end := strings.IndexByte(s, '}')
	switch end {
	case -1:
		return "", 1
	case 1:
		return "", 2
	}
	return s[1:end], end + 1
}

func isSpecial(c byte) bool { return strings.IndexByte("*#$@!?-0123456789", c) >= 0 }

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
