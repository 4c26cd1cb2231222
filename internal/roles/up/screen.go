package up

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/purser-csi/purser/internal/printable"
)

// screen prints steps and a status line for a person: in place and in colour on a terminal, as
// plain lines elsewhere.
//
// It is safe for concurrent use.
type screen struct {
	out      io.Writer
	terminal bool

	mu   sync.Mutex
	open bool // a status line is on the last row
	wait wait
}

// wait is what the start waits for.
type wait struct {
	what  string // empty for nothing
	since time.Time
	next  time.Time // of the next line without a terminal
}

func newScreen(out io.Writer) *screen {
	file, ok := out.(*os.File)
	return &screen{out: out, terminal: ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// step prints one finished step and how long it took.
func (s *screen) step(name string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.wait = wait{}
	fmt.Fprintf(s.out, "  %s %-50s %6.1fs\n", s.paint(green, "✓"), printable.Line(name), took.Seconds())
}

// say prints text. An argument that is no paint may quote a driver or an object, and loses the
// characters that a terminal acts on.
func (s *screen) say(format string, args ...any) {
	shown := make([]any, len(args))
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			arg = printable.Text(text)
		}
		shown[i] = arg
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	fmt.Fprintf(s.out, format+"\n", shown...)
}

// How long a wait is silent without a terminal, and after which pause it is mentioned again.
const (
	firstMention = 10 * time.Second
	nextMention  = 30 * time.Second
)

// waiting says what the start waits for, until the next step ends. A terminal shows it in the last
// row with the seconds; elsewhere there is a line if it takes long.
func (s *screen) waiting(what string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait = wait{printable.Line(what), now, now.Add(firstMention)}
	s.showWait(now)
}

// tick shows how long the wait takes, until ctx ends.
func (s *screen) tick(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			s.mu.Lock()
			s.showWait(now)
			s.mu.Unlock()
		}
	}
}

// showWait shows the wait. The caller holds mu.
func (s *screen) showWait(now time.Time) {
	took := now.Sub(s.wait.since).Truncate(time.Second)
	switch {
	case s.wait.what == "":
	case s.terminal:
		s.clear()
		fmt.Fprintf(s.out, "  … %-50s %6s", s.wait.what, took)
		s.open = true
	case !now.Before(s.wait.next):
		fmt.Fprintf(s.out, "  … %s, for %s so far\n", s.wait.what, took)
		s.wait.next = now.Add(nextMention)
	}
}

// status replaces the status line.
func (s *screen) status(line string) {
	line = printable.Line(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal {
		fmt.Fprintln(s.out, line)
		return
	}
	s.clear()
	fmt.Fprint(s.out, line)
	s.open = true
}

// end clears the last row.
func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.wait = wait{}
}

// clear clears the last row. The caller holds mu.
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
