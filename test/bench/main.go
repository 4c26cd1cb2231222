package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

func main() { os.Exit(run()) }

// options are the flags.
type options struct {
	claims, workers, present   int
	failover, builtIn, contest bool
	pairs                      int
	profile                    string
	patience                   time.Duration
}

func parse() (o options, err error) {
	flag.IntVar(&o.claims, "claims", 500, "claims at once")
	flag.IntVar(&o.workers, "workers", 32, "requests in flight of the load and of the floor")
	flag.IntVar(&o.present, "present", 0, "instead of claims at once: volumes that are there, for the memory that they cost")
	flag.BoolVar(&o.failover, "failover", false, "instead of claims at once: how long claims wait when the leader of two ends")
	flag.BoolVar(&o.contest, "binder", false, "instead of claims at once beside one provisioner: the stock volume controllers, ours and a bare client side by side")
	flag.IntVar(&o.pairs, "pairs", 10000, "with -binder: bound claims and volumes that are there for the last trial; 0 for no such trial")
	flag.BoolVar(&o.builtIn, "built-in", false, "with claims at once: the built-in driver, instead of one that takes no time")
	flag.StringVar(&o.profile, "profile", "", "with -present: `file` for the profile of the heap, for go tool pprof")
	flag.DurationVar(&o.patience, "timeout", 5*time.Minute, "for the whole run")
	flag.Parse()
	if o.claims < floorShare || o.workers < 1 || o.present < 0 || flag.NArg() > 0 {
		return o, fmt.Errorf("-claims must be at least %d, -workers at least 1, -present not negative, and there are no arguments", floorShare)
	}
	return o, nil
}

func run() int {
	o, err := parse()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 2
	}
	ctrllog.SetLogger(logr.Discard()) // what the watches of the load have to say is of no interest
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	if err := o.bench(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// bench runs one of the benchmarks on a cluster of its own, which leaves its logs behind only when something went wrong.
func (o options) bench(ctx context.Context) (err error) {
	bin, err := stage.Bin()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer func() { err = tidy(ctx, dir, err) }()
	switch {
	case o.present > 0:
		return o.benchPresent(ctx, bin, dir)
	case o.contest:
		return o.benchBinder(ctx, bin, dir)
	case o.failover:
		return o.benchFailover(ctx, bin, dir)
	}
	return o.benchClaims(ctx, bin, dir)
}

// benchPresent needs nobody but the API server: the volumes are bound.
func (o options) benchPresent(ctx context.Context, bin, dir string) (err error) {
	fmt.Fprintf(os.Stderr, "Starting a cluster for %d volumes ...\n", o.present)
	r, err := newRig(ctx, bin, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	p, err := measurePresent(ctx, r, load{api: r.api, workers: o.workers}, o.present)
	if err != nil {
		return err
	}
	fmt.Print(p.report())
	if o.profile == "" {
		return nil
	}
	return os.WriteFile(o.profile, p.all.profile, 0o600)
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

// benchBinder has an API server and the contenders.
func (o options) benchBinder(ctx context.Context, bin, dir string) (err error) {
	fmt.Fprintln(os.Stderr, "Starting an API server for the contenders ...")
	c, err := newContest(ctx, bin, dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.run(ctx); err != nil {
		return err
	}
	fmt.Print(c.report())
	return nil
}

// benchClaims has everything that `up` starts.
func (o options) benchClaims(ctx context.Context, bin, dir string) (err error) {
	metrics, err := scrape.FreeAddress()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Starting purser up for %d claims ...\n", o.claims)
	stageConfig := stage.Config{Bin: bin, DataDir: filepath.Join(dir, "up"), Args: []string{"--audit", "--stock-controllers", "--http-endpoint", metrics}}
	l := load{claims: o.claims, workers: o.workers}
	if !o.builtIn {
		socket := filepath.Join(dir, "instant.sock")
		driver, err := serveInstant(socket)
		if err != nil {
			return err
		}
		defer driver.close()
		stageConfig.Socket, l.left = socket, driver.left
		stageConfig.Args = append(stageConfig.Args, "--csi-address", socket)
	}
	s, err := stage.Start(ctx, stageConfig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	if o.builtIn {
		l.left = func() (int, error) { return volumesLeft(s) }
	}
	l.api = s.Client
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { <-s.Ended(); cancel(errors.New("purser up has ended")) }()
	if l.cache, err = ctrlcache.New(s.Admin, ctrlcache.Options{Scheme: s.Client.Scheme()}); err != nil {
		return err
	}
	go func() { _ = l.cache.Start(ctx) }() // ends with ctx
	result, err := measure(ctx, s, metrics, l)
	if err != nil {
		return err
	}
	fmt.Print(result.report())
	return result.fault()
}

// tidy keeps the logs of a run that went wrong.
func tidy(ctx context.Context, dir string, err error) error {
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w\nthe logs are in %s", err, dir)
	}
	return errors.Join(err, os.RemoveAll(dir))
}
