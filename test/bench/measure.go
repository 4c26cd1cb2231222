package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// result is all that was measured.
type result struct {
	claims, cores int

	bound     []time.Duration // of each claim, from its creation to Bound
	boundIn   time.Duration   // from the first request to the last Bound
	deletedIn time.Duration   // from the first request to the last PersistentVolume gone
	left      int             // volumes that the driver has at the end

	create, remove phase
	pace           pace // of the create phase
	floor          floor
	memory         memory
	binary         int64 // bytes
}

// phase is what was asked while it went on.
type phase struct {
	api        audit.Tally
	calls      scrape.Calls
	begin, end audit.Mark
}

// session is what counts are read from.
type session struct {
	metrics string // address of the provisioner's
	log     *audit.Log
}

func measure(ctx context.Context, s *stage.Stage, metrics string, l load) (*result, error) {
	run := session{metrics: metrics, log: s.Audit()}
	r := &result{claims: l.claims, cores: runtime.NumCPU()}
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	if err := run.awaitProvisioner(ctx); err != nil {
		return nil, err
	}
	var err error
	if r.create, err = run.observe(ctx, func() error { return l.create(ctx, r) }); err != nil {
		return nil, err
	}
	if r.pace, err = paceOf(run.log, r.create); err != nil {
		return nil, err
	}
	if r.remove, err = run.observe(ctx, func() error { return l.remove(ctx, r) }); err != nil {
		return nil, err
	}
	if r.left, err = l.left(); err != nil {
		return nil, err
	}
	if r.memory, err = memoryOf(s.Pid()); err != nil {
		return nil, err
	}
	if r.binary, err = size(filepath.Join(s.Bin, "purser")); err != nil {
		return nil, err
	}
	r.floor, err = measureFloor(ctx, s, l)
	return r, err
}

// observe counts what is asked while work goes on, and until those who tell of it have told.
func (s session) observe(ctx context.Context, work func() error) (p phase, err error) {
	before, err := scrape.CSICalls(ctx, s.metrics)
	if err != nil {
		return p, err
	}
	if p.begin, err = s.log.Mark(ctx); err != nil {
		return p, err
	}
	if err := work(); err != nil {
		return p, err
	}
	if p.end, err = s.quiet(ctx, p.begin); err != nil {
		return p, err
	}
	if p.api, err = s.log.Between(p.begin, p.end); err != nil {
		return p, err
	}
	after, err := scrape.CSICalls(ctx, s.metrics)
	p.calls = after.Since(before)
	return p, err
}

// Events are written beside the work and come in late. All is told when nobody writes for this long.
const quietTime = time.Second

// quiet is the end of the log when nothing has been written for a while.
func (s session) quiet(ctx context.Context, begin audit.Mark) (audit.Mark, error) {
	for last := -1; ; {
		end, err := s.log.Mark(ctx)
		if err != nil {
			return 0, err
		}
		tally, err := s.log.Between(begin, end)
		if err != nil {
			return 0, err
		}
		writes := tally.Where(audit.Request.IsWrite).All()
		if writes == last {
			return end, nil
		}
		last = writes
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(quietTime):
		}
	}
}

func (s session) awaitProvisioner(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, last = scrape.CSICalls(ctx, s.metrics)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the provisioner does not serve its metrics: %w", last)
	}
	return nil
}

// volumesLeft is what stays on disk when the last PersistentVolume is gone.
func volumesLeft(s *stage.Stage) (int, error) {
	entries, err := os.ReadDir(s.VolumesDir())
	if err != nil {
		return 0, fmt.Errorf("volumes on disk: %w", err)
	}
	return len(entries), nil
}
