package claims

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/audit"
)

// sides writes the requests of a contender and of the provisioner beside it.
func sides(r row, line func(format string, args ...any)) {
	for _, side := range []struct {
		name  string
		tally audit.Tally
	}{{r.contender, r.asked}, {"  its provisioner", r.made}} {
		if len(side.tally) == 0 {
			continue
		}
		c := countsOf(side.tally)
		line("  %-24s%8s%8s%8s%8s%8s%8s%6d", side.name, r.per(c.verbs["create"]), r.per(c.verbs["update"]),
			r.per(c.verbs["patch"]), r.per(c.verbs["delete"]), r.per(c.reads), r.per(c.events), c.conflicts)
	}
}

// report returns the result as text of 80 columns.
func (o outcome) report() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	disk := "waits for the disk with each write, as in a cluster"
	if o.volatile {
		disk = "does not wait for the disk"
	}
	line("%d claims at once in each trial. %d cores, which the API server uses too; etcd", o.claims, runtime.NumCPU())
	line("%s.", disk)
	o.paceTable(line)
	line("A floor is a client that makes only the writes that must be: four for each")
	line("claim, and five beside a provisioner that is another program. Stock and purser")
	line("have the same one, of ours; plane has it in the same process.\n")
	o.requestTable(line)
	o.usageTable(line)
	o.idleTable(line)
	line("\n%-52s%9s%9s%9s", "Goals", "here", "goal", "")
	for _, g := range o.goals() {
		line("%s", g)
	}
	return out.String()
}

// printer writes one line of a report.
type printer func(format string, args ...any)

// paceTable prints the rates and waiting times.
func (o outcome) paceTable(line printer) {
	line("\n%-26s%9s%9s%9s%9s%9s%9s", "Pace", "per s", "of floor", "x stock", "p50 ms", "p99 ms", "of stock")
	o.each(func(trial string) { line("%s", trial) }, func(r row) {
		if r.contender == nameLate {
			return // its claims wait for it on purpose
		}
		against := o.against(r)
		line("  %-24s%9.1f%9s%9s%9d%9d%9s%s", r.contender, r.rate(), against.floor, against.stock,
			runner.Percentile(r.times, 50).Milliseconds(), runner.Percentile(r.times, 99).Milliseconds(),
			against.tail, o.span(r))
	})
}

// requestTable prints the requests to the API server for each claim.
func (o outcome) requestTable(line printer) {
	line("%-26s%8s%8s%8s%8s%8s%8s%6s", "Requests per claim", "create", "update", "patch", "delete", "reads",
		"events", "409")
	o.each(func(trial string) { line("%s", trial) }, func(r row) {
		if len(r.asked) > 0 {
			sides(r, line)
		}
	})
}

// usageTable prints processor time and memory.
func (o outcome) usageTable(line printer) {
	line("\n%-26s%14s%14s%14s%6s%6s", "Processor, memory", "CPU ms a claim", "provisioner", "API server", "MB", "and")
	o.each(func(trial string) { line("%s", trial) }, func(r row) {
		line("  %-24s%14s%14s%14s%6s%6s", r.contender, r.cpu(ours), r.cpu(theirs), r.cpu(servers),
			r.memory(ours), r.memory(theirs))
	})
}

// idleTable prints the use of the processor without work.
func (o outcome) idleTable(line printer) {
	for i, r := range o.idle {
		if i == 0 {
			line("\n%-26s%18s%18s%18s", fmt.Sprintf("Idle with %d bound", o.pairs), "right after work", "later", "resident MB")
		}
		line("  %-24s%17.2f%%%17.2f%%%18d", r.contender, r.after*100, r.share*100, r.memory.Now>>20)
	}
	if len(o.idle) > 0 {
		line("Of one core: for %s right after work, with the garbage of it; and, %s after", afterTime, calmDown)
		line("work, for %s: what goes on forever.", idleTime)
	}
}

// each goes through the rows, trial after trial.
func (o outcome) each(head func(trial string), body func(row)) {
	var trials []string
	for _, r := range o.rows {
		if !slices.Contains(trials, r.trial) {
			trials = append(trials, r.trial)
		}
	}
	for _, trial := range trials {
		head(trial)
		for _, r := range o.rows {
			if r.trial == trial {
				body(r)
			}
		}
	}
}

// takeMiddle takes of all rounds the one in the middle for each trial and contender, by its rate.
func (o *outcome) takeMiddle() {
	o.rows = nil
	for _, first := range o.every {
		if o.row(first.trial, first.contender) == nil {
			same := o.rounds(first.trial, first.contender)
			slices.SortFunc(same, func(a, b row) int { return cmp.Compare(a.rate(), b.rate()) })
			o.rows = append(o.rows, same[len(same)/2])
		}
	}
}

// rounds are the rows of all rounds, in turn.
func (o outcome) rounds(trial, contender string) (all []row) {
	for _, r := range o.every {
		if r.trial == trial && r.contender == contender {
			all = append(all, r)
		}
	}
	return all
}

// beside divides a number of a contender by that of another one in the same round, and gives the
// ratio in the middle. It is false for one that had no such trial.
func (o outcome) beside(r row, other string, number func(row) float64) (ratio float64, compared bool) {
	mine, theirs := o.rounds(r.trial, r.contender), o.rounds(r.trial, other)
	var ratios []float64
	for i := range min(len(mine), len(theirs)) {
		ratios = append(ratios, number(mine[i])/number(theirs[i]))
	}
	if len(ratios) == 0 {
		return 0, false
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2], true
}

func p99(r row) float64 { return runner.Percentile(r.times, 99).Seconds() }
func p50(r row) float64 { return runner.Percentile(r.times, 50).Seconds() }

// span is the rates of all rounds; empty for a single one.
func (o outcome) span(r row) string {
	var rates []float64
	for _, round := range o.rounds(r.trial, r.contender) {
		rates = append(rates, round.rate())
	}
	if len(rates) < 2 {
		return ""
	}
	return fmt.Sprintf("  %.0f to %.0f per s", slices.Min(rates), slices.Max(rates))
}

func (o outcome) row(trial, contender string) *row {
	for i := range o.rows {
		if o.rows[i].trial == trial && o.rows[i].contender == contender {
			return &o.rows[i]
		}
	}
	return nil
}

// against is a row compared; empty for what it cannot be compared with.
type against struct{ floor, stock, tail string }

func (o outcome) against(r row) against {
	ratio := func(other string, number func(row) float64) string {
		ratio, compared := o.beside(r, other, number)
		if !compared || other == r.contender {
			return ""
		}
		return fmt.Sprintf("%.2f", ratio)
	}
	return against{floor: ratio(r.floor, row.rate), stock: ratio(nameStock, row.rate), tail: ratio(nameStock, p99)}
}

func (r row) rate() float64 { return perSecond(r.claims, r.took) }

// cpu is in milliseconds for a claim.
func (r row) cpu(who int) string {
	return blank(float64(r.spent[who].CPU)/float64(time.Millisecond)/float64(r.claims), "%.2f")
}

func (r row) memory(who int) string { return blank(float64(r.spent[who].Now>>20), "%.0f") }

// per is a number for each claim.
func (r row) per(n int) string { return blank(float64(n)/float64(r.claims), "%.2f") }

func blank(n float64, format string) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf(format, n)
}

// counts sum up a tally. Watches and discovery are not for a claim.
type counts struct {
	verbs                                    map[string]int // of writes
	writes, reads, events, conflicts, vainly int
}

func countsOf(tally audit.Tally) counts {
	c := counts{verbs: map[string]int{}}
	for kind, answers := range tally {
		switch n := answers.All(); {
		case kind.Verb == "watch" || kind.IsDiscovery():
		case kind.IsEvent():
			c.events += n
		case kind.IsWrite():
			c.writes += n
			c.verbs[kind.Verb] += n
			c.conflicts += answers[http.StatusConflict]
			c.vainly += answers[http.StatusConflict] + answers[http.StatusNotFound]
		default:
			c.reads += n
		}
	}
	return c
}
