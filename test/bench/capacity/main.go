package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/purser-csi/purser/test/bench/folder"
)

func main() { os.Exit(run()) }

// options are the flags.
type options struct {
	nodes    int
	poll     time.Duration // --capacity-poll-interval of the provisioners
	polls    int           // that are measured
	delay    time.Duration // of the driver's answers
	patience time.Duration // for the first publication
	only     string        // part of the names of the contenders that take part
}

func run() int {
	var o options
	flag.IntVar(&o.nodes, "nodes", 2000, "nodes, each a topology segment of its own")
	flag.DurationVar(&o.poll, "poll", 30*time.Second, "interval of the polls")
	flag.IntVar(&o.polls, "polls", 10, "how many of them are measured")
	flag.DurationVar(&o.delay, "delay", time.Millisecond, "how long the driver takes for an answer")
	flag.DurationVar(&o.patience, "patience", 2*time.Minute, "for the first publication; what is not published by then is extrapolated")
	flag.StringVar(&o.only, "only", "", "`words` that stand in the names of the contenders, such as purser; empty for all")
	flag.Parse()
	return folder.Main("bench-capacity", false, o.bench)
}

// contenders are the provisioners, with the flags in which they differ. Ours has its defaults.
var contenders = []contender{
	{name: "purser", program: "purser", args: []string{"csi-provisioner"}},
	{name: "upstream, default limit", program: "upstream-csi-provisioner"},
	{name: "upstream, limits lifted", program: "upstream-csi-provisioner", args: []string{
		"--kube-api-capacity-qps=10000", "--kube-api-capacity-burst=10000", "--kube-api-qps=10000", "--kube-api-burst=10000",
	}},
}

func (o options) bench(ctx context.Context, bin, dir string) (err error) {
	fmt.Fprintf(os.Stderr, "Starting an API server with %d nodes; logs are in %s ...\n", o.nodes, dir)
	c, err := newContest(ctx, bin, dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for _, who := range contenders {
		if !strings.Contains(who.name, o.only) {
			continue
		}
		if _, absent := os.Stat(filepath.Join(bin, who.program)); absent != nil {
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", who.name, absent)
			continue
		}
		fmt.Fprintf(os.Stderr, "%s ...\n", who.name)
		r, err := c.measure(ctx, who)
		if err != nil {
			return fmt.Errorf("%s: %w", who.name, err)
		}
		fmt.Print(r)
	}
	return nil
}
