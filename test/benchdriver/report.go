package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// times are how long something took, each time and all in all.
type times struct {
	each  []time.Duration
	whole time.Duration
}

func (t *times) add(whole time.Duration, each []time.Duration) {
	t.whole += whole
	t.each = append(t.each, each...)
}

func (t *times) perSecond() float64 {
	if t.whole == 0 {
		return 0
	}
	return float64(len(t.each)) / t.whole.Seconds()
}

func (t *times) rate() string {
	if len(t.each) == 0 {
		return nothing
	}
	return fmt.Sprintf("%.1f", t.perSecond())
}

// at is the nearest rank of a quantile.
func (t *times) at(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(t.each))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func (t *times) quantile(q float64) string {
	if len(t.each) == 0 {
		return nothing
	}
	return milliseconds(t.at(q))
}

// nothing is what was not measured.
const nothing = "-"

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

func ratio(a, b float64) string {
	if b == 0 {
		return nothing
	}
	return fmt.Sprintf("%.2f", a/b)
}

// table is printed as Markdown, with columns that line up.
type table struct {
	title string
	rows  [][]string
	notes []string
}

func newTable(title string, columns ...string) *table {
	rule := make([]string, len(columns))
	for i := range rule {
		rule[i] = "---"
	}
	return &table{title: title, rows: [][]string{columns, rule}}
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

func (t *table) print(to io.Writer) error {
	fmt.Fprintf(to, "\n%s\n\n", t.title)
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, "\t| "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(to)
	for _, note := range t.notes {
		fmt.Fprintln(to, note)
	}
	return nil
}
