package up

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/purser-csi/purser/internal/printable"
)

// screen prints steps and a status line for a person: in place and in colour on a terminal, as
// plain lines elsewhere.
type screen struct {
	out      io.Writer
	terminal bool
	open     bool // a status line is on the last row
}

func newScreen(out io.Writer) *screen {
	file, ok := out.(*os.File)
	return &screen{out: out, terminal: ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// step prints one finished step and how long it took.
func (s *screen) step(name string, took time.Duration) {
	s.clear()
	fmt.Fprintf(s.out, "  %s %-50s %6.1fs\n", s.paint(green, "✓"), printable.Line(name), took.Seconds())
}

// say prints text. An argument that is no paint may quote a driver or an object, and loses the
// characters that a terminal acts on.
func (s *screen) say(format string, args ...any) {
	s.clear()
	shown := make([]any, len(args))
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			arg = printable.Text(text)
		}
		shown[i] = arg
	}
	fmt.Fprintf(s.out, format+"\n", shown...)
}

// status replaces the status line.
func (s *screen) status(line string) {
	line = printable.Line(line)
	if !s.terminal {
		fmt.Fprintln(s.out, line)
		return
	}
	s.clear()
	fmt.Fprint(s.out, line)
	s.open = true
}

func (s *screen) clear() {
	if s.open {
		fmt.Fprint(s.out, "\r\033[K")
		s.open = false
	}
}

const (
	green = "\033[32m"
	red   = "\033[31m"
	bold  = "\033[1m"
	reset = "\033[0m"
)

// paint is text of this program in a colour.
type paint string

func (s *screen) paint(colour, text string) paint {
	if !s.terminal {
		return paint(text)
	}
	return paint(colour + text + reset)
}
