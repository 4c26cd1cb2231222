package properties

import (
	"fmt"
	"strings"
)

// Split returns the words of a line as a shell reads them. It refuses every character outside of quotes that
// a shell acts on but the operators | and && of the templates, which are words.
func Split(line string) (words []string, err error) {
	var word strings.Builder
	inWord, quoted := false, false
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			quoted, inWord = !quoted, true
		case quoted:
			word.WriteByte(c)
		case c == ' ':
			end()
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			inWord = true
		case strings.HasPrefix(line[i:], "| "), strings.HasPrefix(line[i:], "&& "):
			end()
			words = append(words, line[i:i+strings.IndexByte(line[i:], ' ')])
			i += strings.IndexByte(line[i:], ' ')
		case strings.IndexByte("\"$`;&|<>()*?[]{}#~!\n\t\\", c) >= 0 || c < ' ' || c > '~':
			return words, fmt.Errorf("%q is not quoted", c)
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quoted {
		return words, fmt.Errorf("a quote has no end")
	}
	end()
	return words, nil
}
