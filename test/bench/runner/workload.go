package runner

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/exitcode"
	"github.com/purser-csi/purser/test/scripted"
)

// Workload is one thing that is measured. All fields but Name, Summary, Contenders and Measure may be
// empty.
type Workload struct {
	Name, Summary string
	Rounds        int           // default of -rounds; 0 means 1
	Timeout       time.Duration // default of -timeout; 0 means none

	// Flags adds the workload's own flags.
	Flags func(*flag.FlagSet)
	// Check is called with the common flags when all flags are parsed.
	Check func(Options) error
	// Cluster changes what runs in the cluster.
	Cluster func(*cluster.Config)
	// Driver returns the driver to serve at the socket; nil for none.
	Driver func() scripted.Server
	// Prepare creates what the contenders share, such as accounts and classes.
	Prepare func(context.Context, *Run) error
	// Contenders returns the contenders in the order of the first round. A socket and a kubeconfig are
	// added to their arguments later.
	Contenders func() []Contender
	// Measure measures the running programs of one contender in one round, and prints the result.
	Measure func(context.Context, *Run, *Running) error
	// Play replaces the turns of the contenders with Measure.
	Play func(context.Context, *Run) error
	// Report returns the end of the output, also after an error. Empty: the medians of Run.Rate.
	Report func() string
}

// Options are the flags that all workloads have.
type Options struct {
	Only    string
	Rounds  int
	Keep    bool
	Timeout time.Duration
}

func (o *Options) flags(set *flag.FlagSet, w Workload) {
	set.StringVar(&o.Only, "only", "", "`name` of the contenders that take part, or a part of it, see below; empty for all")
	set.IntVar(&o.Rounds, "rounds", max(w.Rounds, 1), "rounds, in which the contenders take turns")
	set.BoolVar(&o.Keep, "keep", false, "keep the folder with the logs")
	set.DurationVar(&o.Timeout, "timeout", w.Timeout, "for the whole run; 0 for no limit")
}

// check refuses contenders that the workload does not have: a run takes minutes.
func (o *Options) check(all []Contender) error {
	if o.Rounds < 1 {
		return fmt.Errorf("-rounds=%d: must be at least 1", o.Rounds)
	}
	for _, word := range o.words(all) {
		fits := func(c Contender) bool { return c.fits(word) }
		if !slices.ContainsFunc(all, fits) {
			return fmt.Errorf("-only=%s: there is no contender %q, but %s", o.Only, word, strings.Join(choices(all), "; "))
		}
	}
	return nil
}

// words are the parts of -only: short names of contenders that have them, else a part of a name, which
// may have a comma.
func (o *Options) words(all []Contender) []string {
	if len(all) > 0 && all[0].Short != "" {
		return strings.Split(o.Only, ",")
	}
	return []string{o.Only}
}

func (o *Options) selects(all []Contender, one Contender) bool {
	return slices.ContainsFunc(o.words(all), one.fits)
}

// choices are the words for -only.
func choices(all []Contender) (names []string) {
	for _, one := range all {
		if one.Short != "" {
			names = append(names, one.Short)
		} else {
			names = append(names, one.Name)
		}
	}
	return names
}

const usageCode = 2

// Main runs the workload that the first argument names, and returns the exit code.
func Main(args []string, workloads ...Workload) int {
	at := -1
	if len(args) > 0 {
		at = slices.IndexFunc(workloads, func(w Workload) bool { return w.Name == args[0] })
	}
	if at < 0 {
		fmt.Fprint(os.Stderr, "usage: go run ./test/bench WORKLOAD [flags]\n\nWorkloads (-h lists the flags of one):\n")
		for _, w := range workloads {
			fmt.Fprintf(os.Stderr, "  %-10s %s\n", w.Name, w.Summary)
		}
		return usageCode
	}
	w := workloads[at]
	o, err := w.parse(args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench %s: %v\n", w.Name, err)
		return usageCode
	}
	return exitcode.Run("bench "+w.Name, o.Timeout, func(ctx context.Context) error { return run(ctx, w, o) })
}

func (w Workload) parse(args []string) (o Options, err error) {
	set := flag.NewFlagSet("bench "+w.Name, flag.ExitOnError)
	o.flags(set, w)
	if w.Flags != nil {
		w.Flags(set)
	}
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "bench %s: %s\n", w.Name, w.Summary)
		set.PrintDefaults()
		fmt.Fprintf(set.Output(), "Contenders, by the names for -only: %s\n", strings.Join(choices(w.Contenders()), "; "))
	}
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("there are no arguments beside flags: %q", set.Args())
	}
	if err := o.check(w.Contenders()); err != nil || w.Check == nil {
		return o, err
	}
	return o, w.Check(o)
}
