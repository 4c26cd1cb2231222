package daytwo

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/size"
)

// Level says how a cell or a line is coloured.
type Level string

// The levels.
const (
	Plain    Level = ""
	Good     Level = "ok"
	Warning  Level = "warning"
	Critical Level = "critical"
	Unknown  Level = "unknown"
)

// code is an escape sequence of a terminal.
type code string

var codes = map[Level]code{Good: "\x1b[32m", Warning: "\x1b[33m", Critical: "\x1b[31m", Unknown: "\x1b[2m"}

const off code = "\x1b[0m"

// Page is text for a terminal. Its zero value has no colours.
type Page struct {
	Colours bool
	text    strings.Builder
}

// String returns the text.
func (p *Page) String() string { return p.text.String() }

// Line prints one line. Texts of other parties lose the characters that a terminal acts on.
func (p *Page) Line(level Level, format string, args ...any) {
	p.text.WriteString(p.paint(level, printable.Line(fmt.Sprintf(format, args...))) + "\n")
}

func (p *Page) paint(level Level, text string) string {
	if !p.Colours || codes[level] == "" {
		return text
	}
	return string(codes[level]) + text + string(off)
}

// cell is one cell of a table.
type cell struct {
	text  string
	level Level
}

// table is a table with a head. Columns whose head begins with > are aligned to the right.
type table struct {
	head []string
	rows [][]cell
}

func (t *table) add(level Level, texts ...string) {
	row := make([]cell, len(texts))
	for i, text := range texts {
		row[i] = cell{printable.Line(text), level}
	}
	t.rows = append(t.rows, row)
}

// print prints the table with two spaces between its columns.
func (t *table) print(p *Page) {
	head := make([]cell, len(t.head))
	widths := make([]int, len(t.head))
	for i, text := range t.head {
		head[i].text = strings.TrimPrefix(text, ">")
		widths[i] = utf8.RuneCountInString(head[i].text)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	for _, row := range append([][]cell{head}, t.rows...) {
		var line strings.Builder
		for i, c := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
			switch {
			case strings.HasPrefix(t.head[i], ">"):
				line.WriteString(gap + p.paint(c.level, c.text))
			case i == len(row)-1:
				line.WriteString(p.paint(c.level, c.text))
			default:
				line.WriteString(p.paint(c.level, c.text) + gap)
			}
			if i < len(row)-1 {
				line.WriteString("  ")
			}
		}
		p.text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// Bytes returns a number of bytes in at most four characters and a binary unit, as df -h has it.
func Bytes(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d", max(n, 0))
	}
	value := float64(n)
	for _, unit := range []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} {
		value /= step
		if value < 10 {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + unit
		}
		if value < step {
			return fmt.Sprintf("%.0f%s", value, unit)
		}
	}
	return fmt.Sprintf("%.0fEi", value)
}

// Count returns a number of things in at most five characters.
func Count(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d", max(n, 0))
	case n < 10_000_000:
		return fmt.Sprintf("%dk", n/1_000)
	}
	return fmt.Sprintf("%dM", n/1_000_000)
}

// Took returns a duration in three digits or so.
func Took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// bytesOf returns a quantity of the API in bytes.
func bytesOf(q resource.Quantity) int64 { return size.Clamp(q) }

// orDash returns a text, or a dash for none.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// plural returns "1 claim" or "3 claims".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
