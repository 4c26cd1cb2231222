package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/purser-csi/purser/test/bench/folder"
)

func main() { os.Exit(run()) }

// options are the flags.
type options struct {
	snapshots, rounds int
	only              string
	keep              bool
}

func run() int {
	var o options
	flag.IntVar(&o.snapshots, "snapshots", 200, "snapshots at once, and restores of them")
	flag.IntVar(&o.rounds, "rounds", 3, "bursts of each combination")
	flag.StringVar(&o.only, "only", "", "part of the `name` of the combinations to measure; empty for all")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with the logs")
	flag.Parse()
	return folder.Main("bench-snapshot", o.keep, o.bench)
}

func (o options) bench(ctx context.Context, bin, dir string) (err error) {
	fmt.Fprintf(os.Stderr, "Starting an API server with %d bound claims; logs are in %s ...\n", o.snapshots, dir)
	c, err := newContest(ctx, bin, dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for _, one := range combinations(filepath.Join(dir, socketName)) {
		if !strings.Contains(one.Name, o.only) {
			continue
		}
		if missing := c.Missing(one); missing != "" {
			fmt.Fprintf(os.Stderr, "%s is left out: there is no %s\n", one.Name, missing)
			continue
		}
		if err := c.measure(ctx, one); err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
	}
	return nil
}
