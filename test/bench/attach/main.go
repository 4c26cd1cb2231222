package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/purser-csi/purser/test/bench/folder"
)

func main() { os.Exit(run()) }

// options are the flags.
type options struct {
	count struct{ nodes, volumes, idle, moves, present int }
	only  string
	keep  bool
}

func run() int {
	var o options
	flag.IntVar(&o.count.nodes, "nodes", 20, "virtual nodes")
	flag.IntVar(&o.count.volumes, "volumes", 500, "volumes at once")
	flag.IntVar(&o.count.idle, "idle", 20, "volumes that are attached one after the other")
	flag.IntVar(&o.count.moves, "moves", 10, "pods that move to another node")
	flag.IntVar(&o.count.present, "present", 0, "instead of all that: volumes that are attached, for what an idle program costs beside them")
	flag.StringVar(&o.only, "only", "", "part of the `name` of the combinations to measure; empty for all")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with the logs")
	flag.Parse()
	return folder.Main("bench-attach", o.keep, o.bench)
}

func (o options) bench(ctx context.Context, bin, dir string) (err error) {
	fmt.Fprintf(os.Stderr, "Starting an API server with %d nodes; logs are in %s ...\n", o.count.nodes, dir)
	c, err := newContest(ctx, bin, dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if o.count.present > 0 {
		return c.present(ctx)
	}
	for _, one := range c.combinations() {
		if !strings.Contains(one.Name, o.only) {
			continue
		}
		if missing := c.Missing(one.Contender); missing != "" {
			fmt.Fprintf(os.Stderr, "%s is left out: there is no %s\n", one.Name, missing)
			continue
		}
		if err := c.measure(ctx, one); err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
	}
	return nil
}
