package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// rounds is in how many turns the driver and the programs do a row: what the machine does beside
// them should meet both.
const rounds = 2

// inFlight are how many volumes are made at once.
var inFlight = []int{1, 16}

// benchVolumes measures create and stage, and unstage and delete.
func (o options) benchVolumes(ctx context.Context, dir string) (err error) {
	t := newTable(fmt.Sprintf("Volumes of %d MiB: by the driver, and by plain programs", volumeBytes/mebi),
		"volume", "step", "in flight", "volumes", "per second", "p50", "p99", "programs per second", "p50", "p99", "ratio")
	// Also after a failure: what was measured was measured.
	defer func() { err = errors.Join(err, t.print(os.Stdout)) }()
	for i, s := range subjects() {
		if !o.wants(s.name) {
			continue
		}
		if maker := makers[s.fs]; maker != nil {
			if err := present(maker[0]); err != nil {
				t.note("%s: skipped: %v", s.name, err)
				continue
			}
		}
		for _, width := range inFlight {
			n := o.volumes
			if width > 1 {
				n *= 2
			}
			if err := s.bench(ctx, filepath.Join(dir, fmt.Sprintf("%d-%d", i, width)), trial{n: n, width: width}, t); err != nil {
				return fmt.Errorf("%s, %d in flight: %w", s.name, width, err)
			}
		}
	}
	t.note(
		"The ratio is the driver's rate divided by that of the programs. The driver syncs what it makes; the programs do not.",
	)
	return nil
}

// trial is how much is done, and how much of it at once.
type trial struct{ n, width int }

func (s subject) bench(ctx context.Context, dir string, of trial, t *table) error {
	if err := os.MkdirAll(filepath.Join(dir, "tools"), 0o750); err != nil {
		return err
	}
	driver, stop, err := serve(ctx, s, dir)
	if err != nil {
		return err
	}
	var ours, theirs [2]times
	for round := range rounds {
		part := trial{n: (of.n + rounds - 1) / rounds, width: of.width}
		if err == nil {
			err = part.run(ctx, driver, fmt.Sprint("d", round), &ours)
		}
		if err == nil {
			err = part.run(ctx, s.tools(filepath.Join(dir, "tools")), fmt.Sprint("t", round), &theirs)
		}
	}
	if stopped := stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	steps := [2]string{"create+stage", "unstage+delete"}
	if s.direct {
		steps = [2]string{"create+publish", "unpublish+delete"}
	}
	for i, step := range steps {
		t.row(
			s.name,
			step,
			fmt.Sprint(of.width),
			fmt.Sprint(len(ours[i].each)),
			ours[i].rate(),
			ours[i].quantile(0.5),
			ours[i].quantile(0.99),
			theirs[i].rate(),
			theirs[i].quantile(0.5),
			theirs[i].quantile(0.99),
			ratio(ours[i].perSecond(), theirs[i].perSecond()),
		)
	}
	return nil
}

// run makes all volumes and takes them away again.
func (of trial) run(ctx context.Context, h hands, prefix string, into *[2]times) error {
	for i, do := range []func(context.Context, string) error{h.up, h.down} {
		if err := of.each(ctx, prefix, do, &into[i]); err != nil {
			return err
		}
	}
	return nil
}

func (of trial) each(ctx context.Context, prefix string, do func(context.Context, string) error, into *times) error {
	each := make([]time.Duration, of.n)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(of.width)
	for i := range of.n {
		group.Go(func() error {
			began := time.Now()
			err := do(ctx, fmt.Sprintf("%s-%d", prefix, i))
			each[i] = time.Since(began)
			return err
		})
	}
	err := group.Wait()
	into.add(time.Since(began), each)
	return err
}
