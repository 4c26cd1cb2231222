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

	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

func main() { os.Exit(run()) }

func run() int {
	claims := flag.Int("claims", 500, "claims at once")
	workers := flag.Int("workers", 32, "requests in flight of the load and of the floor")
	patience := flag.Duration("timeout", 5*time.Minute, "for the whole run")
	flag.Parse()
	if *claims < floorShare || *workers < 1 || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: -claims must be at least %d, -workers at least 1, and there are no arguments\n", floorShare)
		return 2
	}
	ctrllog.SetLogger(logr.Discard()) // what the watches of the load have to say is of no interest
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	if err := bench(ctx, *claims, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// bench runs everything on a cluster of its own, which leaves its logs behind only when something went wrong.
func bench(ctx context.Context, claims, workers int) (err error) {
	bin, err := stage.Bin()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer func() { err = tidy(ctx, dir, err) }()
	metrics, err := scrape.FreeAddress()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Starting purser up for %d claims ...\n", claims)
	s, err := stage.Start(ctx, stage.Config{Bin: bin, DataDir: dir, Args: []string{"--audit", "--http-endpoint", metrics}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { <-s.Ended(); cancel(errors.New("purser up has ended")) }()
	cache, err := ctrlcache.New(s.Admin, ctrlcache.Options{Scheme: s.Client.Scheme()})
	if err != nil {
		return err
	}
	go func() { _ = cache.Start(ctx) }() // ends with ctx
	result, err := measure(ctx, s, metrics, load{api: s.Client, cache: cache, claims: claims, workers: workers})
	if err != nil {
		return err
	}
	fmt.Print(result.report())
	return result.fault()
}

// tidy keeps the logs of a run that went wrong.
func tidy(ctx context.Context, dir string, err error) error {
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w\nthe logs are in %s", err, filepath.Join(dir, "logs"))
	}
	return errors.Join(err, os.RemoveAll(dir))
}
