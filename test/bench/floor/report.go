package floor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// report returns the result in the chosen format; nothing without a measured row.
func (b *bench) report() string {
	t := b.table()
	if len(t.Lines) == 0 && len(t.Memory) == 0 {
		return ""
	}
	switch b.output {
	case asJSON:
		content, err := json.MarshalIndent(t, "", "  ")
		if err != nil {
			return err.Error() + "\n"
		}
		return string(content) + "\n"
	case asMarkdown:
		return t.markdown()
	}
	return t.text()
}

// paragraph says how a row is obtained.
func (o operation) paragraph() string {
	describe := func(n need) string {
		batched := ""
		if n.Batched > 0 {
			batched = " + 1/N"
		}
		return fmt.Sprintf("%.0f%s writes, depth %d", n.Writes, batched, n.Depth)
	}
	return fmt.Sprintf("%s (%s). %s Floor: %s in processes of their own; %s in one process.",
		o.name, o.id, o.how, describe(o.floors[separate]), describe(o.floors[together]))
}

var (
	columns = []string{
		"contender", "writes", "floor", "ratio", "reads", "events", "journal", "idle ms", "depth x w", "ratio", "per s",
		"of bare", "CPU ms", "server", "watch kB",
	}
	memoryColumns = []string{"contender", "empty MB", "with volumes MB", "kB a pair", "live heap kB a pair"}
)

// cells are those of a line, in the order of columns. A mark follows what misses an aim.
func (l line) cells() []string {
	ratio := func(x, y, aim float64, below bool) string {
		if y == 0 || x == 0 {
			return "-"
		}
		mark := ""
		if misses := x/y > aim; misses != below && !strings.HasPrefix(l.Contender, bareSeparate) {
			mark = "!"
		}
		return fmt.Sprintf("%.2f%s", x/y, mark)
	}
	cells := []string{
		l.Contender, fmt.Sprintf("%.2f", l.Writes), fmt.Sprintf("%.2f", l.Floor),
		ratio(l.Writes, l.Floor, aimWrites, false),
		short(l.Reads), short(l.Events), short(l.Journal),
		fmt.Sprintf("%.1f", l.IdleMS), fmt.Sprintf("%.1f", l.DepthMS), ratio(l.IdleMS, l.DepthMS, aimIdle, false),
		fmt.Sprintf("%.0f", l.Rate), ratio(l.OfBare, 1, aimRate, true),
		short(l.ProgramsMS), fmt.Sprintf("%.1f", l.ServerMS), short(l.WatchBytes / 1024),
	}
	if strings.HasPrefix(l.Contender, bareSeparate) { // its watches and its depth are not those of a controller
		cells[8], cells[9], cells[14] = "", "", ""
	}
	return cells
}

func short(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

func (k kept) cells() []string {
	heap := "-"
	if k.HeapPair != 0 {
		heap = fmt.Sprintf("%.1f", k.HeapPair/1024)
	}
	return []string{
		k.Contender, fmt.Sprintf("%.0f", k.Empty/(1<<20)), fmt.Sprintf("%.0f", k.Full/(1<<20)),
		fmt.Sprintf("%.1f", k.PerPair/1024), heap,
	}
}

// rows calls begin before the lines of each row.
func (t table) rows(begin func(row, id string), each func(line)) {
	last := ""
	for _, l := range t.Lines {
		if l.Row != last {
			last = l.Row
			begin(l.Row, l.ID)
		}
		each(l)
	}
}

// head says what was measured, and what the words of the tables mean.
func (t table) head() []string {
	disk := "etcd waits for the disk with each write, as in a cluster"
	if !t.Durable {
		disk = "etcd does not wait for the disk"
	}
	return []string{
		fmt.Sprintf("%d volumes at once on %d nodes, %d single operations before, %d workers, rounds: %d. %d cores, "+
			"which the API server uses too; %s. A write of a bare client takes w = %.1f ms.",
			t.Volumes, t.Nodes, t.Idle, t.Workers, t.Rounds, t.Cores, disk, t.WriteMS),
		"Writes, reads, events, journal and watch kB are for each operation of the burst of the first round, and N " +
			"in the floor is the volumes of a node. Idle is the median of all single operations, per s the median of " +
			"the rounds, of bare the median of the ratios of each round to the bare client. CPU is of the " +
			"contender's programs, server that of the API server and etcd, which serve the users too. A mark ! " +
			"misses an aim: at most 1.05 of the floor, at most 1.5 of depth x w, at least 0.9 of the bare client.",
	}
}

func (t table) text() string {
	var out strings.Builder
	for _, paragraph := range t.head() {
		fmt.Fprintf(&out, "\n%s\n", wrapped(paragraph))
	}
	write := func(table func(line func(cells ...string))) {
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
		table(func(cells ...string) {
			// the first column is aligned on the left
			fmt.Fprintf(w, "%-16s\t%s\t\n", cells[0], strings.Join(cells[1:], "\t"))
		})
		_ = w.Flush() // to memory
	}
	out.WriteByte('\n')
	write(func(row func(...string)) {
		row(columns...)
		t.rows(func(name, id string) { row(append([]string{name + ", " + id}, make([]string, len(columns)-1)...)...) },
			func(l line) { c := l.cells(); row(append([]string{"  " + c[0]}, c[1:]...)...) })
	})
	if len(t.Memory) > 0 {
		out.WriteByte('\n')
		write(func(row func(...string)) {
			row(memoryColumns...)
			for _, k := range t.Memory {
				row(k.cells()...)
			}
		})
	}
	out.WriteString(t.tail())
	return trimmed(out.String())
}

// tail returns what follows the tables: the notes and the paragraphs.
func (t table) tail() string {
	var out strings.Builder
	for _, text := range slices.Concat(t.notes(), t.Paragraphs) {
		fmt.Fprintf(&out, "\n%s\n", wrapped(text))
	}
	return out.String()
}

// trimmed removes spaces at the ends of lines.
func trimmed(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return out.String()
}

// markdown returns the tables as docs/performance.md quotes them.
func (t table) markdown() string {
	var out strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	head := func(cells ...string) {
		row(cells...)
		fmt.Fprintf(&out, "|%s\n", strings.Repeat("---|", len(cells)))
	}
	for _, paragraph := range t.head() {
		fmt.Fprintf(&out, "%s\n\n", wrapped(paragraph))
	}
	head(append([]string{"operation"}, columns...)...)
	name := ""
	t.rows(func(row, _ string) { name = row }, func(l line) {
		row(append([]string{name}, l.cells()...)...)
		name = ""
	})
	if len(t.Memory) > 0 {
		out.WriteByte('\n')
		head(memoryColumns...)
		for _, k := range t.Memory {
			row(k.cells()...)
		}
	}
	out.WriteString(t.tail())
	return out.String()
}

// notes are the rows that were left out, and the requests by kind where ours are above the floor.
func (t table) notes() (all []string) {
	for _, left := range t.LeftOut {
		all = append(all, "Left out: "+left+".")
	}
	for _, l := range t.Lines {
		if l.Contender != ourSeparate && l.Contender != ourTogether || l.Writes <= aimWrites*l.Floor && l.Reads == 0 {
			continue
		}
		all = append(all, fmt.Sprintf("Requests of %s, %s: %s.", l.Row, l.Contender, listed(l.Kinds, "%.2f", 1)))
	}
	for _, k := range t.Memory {
		if len(k.Heaps) > 0 {
			all = append(all, fmt.Sprintf(
				"Live heap of a pair in kB, %s: %s.", k.Contender, listed(k.Heaps, "%.1f", 1024),
			))
		}
	}
	return all
}

// listed prints the numbers by name, each divided by unit.
func listed(numbers map[string]float64, format string, unit float64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		all = append(all, name+" "+fmt.Sprintf(format, numbers[name]/unit))
	}
	return strings.Join(all, ", ")
}

// pageWidth is that of paragraphs.
const pageWidth = 110

func wrapped(text string) string {
	var out strings.Builder
	width := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case width == 0:
		case width+1+len(word) > pageWidth:
			out.WriteByte('\n')
			width = 0
		default:
			out.WriteByte(' ')
			width++
		}
		out.WriteString(word)
		width += len(word)
	}
	return out.String()
}
