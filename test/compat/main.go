package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/purser-csi/purser/test/compat/outcome"
	"github.com/purser-csi/purser/test/compat/report"
	"github.com/purser-csi/purser/test/compat/scenario"
	"github.com/purser-csi/purser/test/e2e/stage"
)

//go:embed scenarios
var scenarios embed.FS

//go:embed differences.yaml
var differences []byte

func main() { os.Exit(mainly()) }

// options are the flags.
type options struct {
	only     string
	against  string
	args     string
	parallel int
	keep     bool
	patience time.Duration
}

func parse() (o options, err error) {
	flag.StringVar(&o.only, "run", "", "only scenarios whose name, family and all, matches this `expression`")
	flag.StringVar(
		&o.against,
		"against",
		"purser",
		"whom to hold against the stock controllers: `purser`, or stock to try the scenarios themselves",
	)
	flag.StringVar(&o.args, "args", "", "more `arguments` for purser controllers")
	flag.IntVar(&o.parallel, "parallel", 24, "scenarios at once")
	flag.BoolVar(&o.keep, "keep", false, "keep the logs")
	flag.DurationVar(&o.patience, "timeout", 8*time.Minute, "for the whole run")
	flag.Parse()
	if o.against != "purser" && o.against != "stock" || o.parallel < 1 || flag.NArg() > 0 {
		return o, errors.New("-against is purser or stock, -parallel is at least 1, and there are no arguments")
	}
	return o, nil
}

func mainly() int {
	o, err := parse()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		return 2
	}
	klog.SetLogger(klog.Background().V(9)) // the log lines of the watches are not needed
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	r, err := o.compare(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		return 1
	}
	r.Write(os.Stdout)
	if r.Failed() {
		return 1
	}
	return 0
}

// load reads the selected scenarios.
func (o options) load() (chosen []scenario.Scenario, err error) {
	files, err := fs.Sub(scenarios, "scenarios")
	if err != nil {
		return nil, err
	}
	all, err := scenario.Load(files)
	if err != nil {
		return nil, err
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	for _, s := range all {
		if only.MatchString(s.Name) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// known reads the list of differences.
func known() (outcome.List, error) {
	root, err := stage.Root()
	if err != nil {
		return outcome.List{}, err
	}
	return outcome.ReadList(differences, func(page string) (string, error) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
		return string(text), err
	})
}

// comparison runs the same scenarios on both sides.
type comparison struct {
	folders  folders
	sides    [2]side
	parallel int
	known    outcome.List
}

// play plays scenarios on both sides.
func (t comparison) play(ctx context.Context, chosen []scenario.Scenario) (r report.Report, err error) {
	var runs [2]*run
	for i, s := range t.sides {
		began := time.Now()
		fmt.Fprintf(os.Stderr, "compat: playing %d scenarios to %s ...\n", len(chosen), s.name)
		runs[i] = &run{side: s, scenarios: chosen, parallel: t.parallel, results: map[string]report.Result{}}
		if err := runs[i].play(ctx, t.folders); err != nil {
			return r, fmt.Errorf("%s: %w", s.name, err)
		}
		r.Names[i], r.Took[i] = s.name, time.Since(began).Round(time.Second).String()
	}
	for _, s := range chosen {
		r.Comparisons = append(r.Comparisons, report.Compare(s, runs[0].results[s.Name], runs[1].results[s.Name], t.known))
	}
	return r, nil
}

// both plays all scenarios on both sides. It repeats those for which the stock controllers emitted
// fewer events, since they drop events under load and after 25 about one object, and those in which
// they did not meet an expectation.
func (t comparison) both(ctx context.Context, chosen []scenario.Scenario) (report.Report, error) {
	r, err := t.play(ctx, chosen)
	if err != nil {
		return r, err
	}
	quiet := r.ToldLess()
	if len(quiet) == 0 {
		return r, nil
	}
	for i := range t.sides {
		t.sides[i].name += "-again"
	}
	again, err := t.play(ctx, quiet)
	if err != nil {
		return r, err
	}
	r.Replace(again)
	return r, nil
}

// compare does what the flags say.
func (o options) compare(ctx context.Context) (r report.Report, err error) {
	chosen, err := o.load()
	if err != nil {
		return r, err
	}
	t := comparison{parallel: o.parallel, sides: [2]side{stock("stock"), ours(strings.Fields(o.args))}}
	if t.known, err = known(); err != nil {
		return r, err
	}
	if o.against == "stock" {
		t.sides[1], t.known = stock("stock-too"), outcome.List{}
	}
	root, err := stage.Root()
	if err != nil {
		return r, err
	}
	t.folders.bin = filepath.Join(root, "bin")
	if t.folders.dir, err = os.MkdirTemp("", "compat-"); err != nil {
		return r, err
	}
	defer func() {
		if err != nil || o.keep {
			fmt.Fprintln(os.Stderr, "compat: the logs are in", t.folders.dir)
			return
		}
		err = os.RemoveAll(t.folders.dir)
	}()
	if r, err = t.both(ctx, chosen); err == nil && o.only == "" {
		r.Unused = t.known.Unused()
	}
	return r, err
}
