package main

import (
	"regexp"
	"strings"
	"time"
)

// span is a part of a line in one style.
type span struct {
	text  string
	style string // parameters of SGR, such as "1" or "32"; empty for none
}

// line is a line of the terminal, and when it was finished.
type line struct {
	at    time.Duration
	spans []span
}

// String is the text of the line.
func (l line) String() string {
	var b strings.Builder
	for _, s := range l.spans {
		b.WriteString(s.text)
	}
	return strings.TrimRight(b.String(), " ")
}

// screen understands what the programs of the session print: lines, styles, and a line that is
// written again after a carriage return. It does not know a cursor that moves up.
type screen struct {
	finished []line
	current  []span
	style    string
	pending  string // the beginning of an escape sequence, or a carriage return
}

var escape = regexp.MustCompile(`^\x1b\[([0-9;?]*)([A-Za-z])`)

// write shows a text at a time.
func (s *screen) write(at time.Duration, text string) {
	text = s.pending + text
	s.pending = ""
	for text != "" {
		switch match := escape.FindStringSubmatch(text); {
		case match != nil:
			s.control(match[1], match[2])
			text = text[len(match[0]):]
		case text[0] == '\x1b' && len(text) < 16 || text == "\r":
			s.pending, text = text, ""
		case strings.HasPrefix(text, "\r\n"), text[0] == '\n':
			s.finished = append(s.finished, line{at, s.current})
			s.current, text = nil, text[strings.IndexByte(text, '\n')+1:]
		case text[0] == '\r', text[0] == '\x1b':
			if text[0] == '\r' {
				s.current = nil // the programs write the whole line again
			}
			text = text[1:]
		default:
			end := strings.IndexAny(text, "\x1b\r\n")
			if end < 0 {
				end = len(text)
			}
			s.add(text[:end])
			text = text[end:]
		}
	}
}

// add adds a text to the line. One span has all of a style: a character may come in two chunks.
func (s *screen) add(text string) {
	if last := len(s.current) - 1; last >= 0 && s.current[last].style == s.style {
		s.current[last].text += text
		return
	}
	s.current = append(s.current, span{text, s.style})
}

// control keeps styles, and clears a line.
func (s *screen) control(parameters, command string) {
	switch command {
	case "m":
		if s.style = parameters; parameters == "0" {
			s.style = ""
		}
	case "K":
		if parameters == "2" {
			s.current = nil
		}
	}
}

// whole returns the finished lines, of which a terminal shows long ones as several.
func (s *screen) whole() (all []line) {
	for _, l := range s.finished {
		all = append(all, l.wrap()...)
	}
	return all
}

// wrap splits a line that is longer than the terminal is wide.
func (l line) wrap() []line {
	lines, free := []line{{at: l.at}}, columns
	for _, s := range l.spans {
		for left := []rune(s.text); len(left) > 0; {
			if free == 0 {
				lines, free = append(lines, line{at: l.at}), columns
			}
			part := left[:min(free, len(left))]
			last := &lines[len(lines)-1]
			last.spans = append(last.spans, span{string(part), s.style})
			left, free = left[len(part):], free-len(part)
		}
	}
	return lines
}

func (s *screen) text() string {
	var b strings.Builder
	for _, l := range s.finished {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}
