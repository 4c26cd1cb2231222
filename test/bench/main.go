package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/bench/folder"
	"github.com/purser-csi/purser/test/exitcode"
)

func main() { os.Exit(run()) }

// options are the flags.
type options struct {
	claims, workers, pairs, rounds, present int
	failover, last, volatile                bool
	only, trial, profiles                   string
	patience                                time.Duration
}

func parse() (o options, err error) {
	flag.IntVar(&o.claims, "claims", 1000, "claims at once in each trial")
	flag.IntVar(&o.workers, "workers", 32, "requests in flight of the load and of the floors")
	flag.IntVar(
		&o.pairs,
		"pairs",
		10000,
		"bound claims and volumes that are there for the last trial; 0 for no such trial",
	)
	flag.IntVar(
		&o.rounds,
		"rounds",
		1,
		"how often each contender has its turn; the middle round counts, and of ratios that within one round",
	)
	flag.StringVar(&o.only, "only", "", "`names` of the contenders that take part, such as floor4,plane; empty for all")
	flag.StringVar(
		&o.trial,
		"trial",
		"",
		"`words` that stand in the names of the trials to do, such as dynamic; empty for all",
	)
	flag.IntVar(&o.present, "present", 0, "instead of a contest: volumes that are there, for the memory that they cost")
	flag.BoolVar(&o.last, "last", false, "leave out all trials but the last, the one beside bound claims")
	flag.BoolVar(&o.failover, "failover", false, "instead of a contest: how long claims wait when the leader of two ends")
	flag.BoolVar(
		&o.volatile,
		"volatile",
		false,
		"etcd does not wait for the disk, as it does in every cluster whose data is to last",
	)
	flag.StringVar(
		&o.profiles,
		"profiles",
		"",
		"`folder` for profiles, for go tool pprof: of the processor in a contest, of the heap with -present",
	)
	flag.DurationVar(&o.patience, "timeout", 40*time.Minute, "for the whole run")
	flag.Parse()
	if o.claims < 1 || o.workers < 1 || o.rounds < 1 || o.present < 0 || o.pairs < 0 || flag.NArg() > 0 {
		return o, errors.New(
			"-claims, -workers and -rounds must be at least 1, -pairs and -present not negative, and there are no arguments",
		)
	}
	if o.profiles != "" {
		if is, err := os.Stat(o.profiles); err != nil || !is.IsDir() {
			return o, fmt.Errorf("-profiles=%s: is not a folder; make it first", o.profiles)
		}
	}
	return o, o.known()
}

func run() int {
	o, err := parse()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 2
	}
	ctrllog.SetLogger(logr.Discard()) // what the watches of the load have to say is of no interest
	return exitcode.Run("bench", o.patience, o.bench)
}

// bench runs one of the benchmarks on a cluster of its own, which leaves its logs behind only when
// something went wrong.
func (o options) bench(ctx context.Context) error {
	work := o.benchContest
	switch {
	case o.present > 0:
		work = o.benchPresent
	case o.failover:
		work = o.benchFailover
	}
	return folder.Run(ctx, folder.OnFailure, work)
}

// benchPresent needs only the API server: the volumes are bound.
func (o options) benchPresent(ctx context.Context, bin, dir string) (err error) {
	fmt.Fprintf(os.Stderr, "Starting a cluster for %d volumes ...\n", o.present)
	r, err := newRig(ctx, bin, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	all, err := measurePresent(ctx, r, load{api: r.api, workers: o.workers}, o.present)
	if err != nil {
		return err
	}
	fmt.Print(reportPresent(all, o.present))
	return saveHeaps(o.profiles, all)
}

// benchFailover needs the PV controller too, which gives claims to the driver.
func (o options) benchFailover(ctx context.Context, bin, dir string) (err error) {
	fmt.Fprintln(os.Stderr, "Starting a cluster and two provisioners ...")
	r, err := newRig(ctx, bin, dir, cluster.ControllerManager)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	f, err := measureFailover(ctx, r, load{api: r.api, workers: o.workers})
	if err != nil {
		return err
	}
	fmt.Print(f.report())
	return nil
}

// benchContest has an API server and the contenders.
func (o options) benchContest(ctx context.Context, bin, dir string) (err error) {
	fmt.Fprintln(os.Stderr, "Starting an API server for the contenders ...")
	c, err := newContest(ctx, bin, dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	err = c.run(ctx)
	if c.outcome.takeMiddle(); len(c.outcome.rows) > 0 { // also of a run that was cut off
		fmt.Print(c.outcome.report())
	}
	return err
}
