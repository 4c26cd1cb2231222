package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/purser-csi/purser/test/compat/explained"
	"github.com/purser-csi/purser/test/compat/invariant"
	"github.com/purser-csi/purser/test/compat/outcome"
	"github.com/purser-csi/purser/test/compat/play"
	"github.com/purser-csi/purser/test/compat/record"
	"github.com/purser-csi/purser/test/compat/report"
	"github.com/purser-csi/purser/test/compat/scenario"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// run is one pass over the scenarios with one set of controllers.
type run struct {
	side      side
	scenarios []scenario.Scenario
	parallel  int

	mu      sync.Mutex
	results map[string]report.Result
}

const (
	// calm is longer than the resync of the stock controllers.
	calm     = resync + 200*time.Millisecond
	patience = time.Minute

	// probes is the number of probes that can be in flight, so that a scenario that waits for a new
	// probe does not wait for the end of a running one.
	probes = 3
)

// play starts a cluster, plays everything and stops it.
func (r *run) play(ctx context.Context, h folders) (err error) {
	t, err := h.opened(ctx, r.side.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	players, err := r.open(t.ctx, t.stage)
	if err != nil {
		return err
	}
	if err := t.launch(r.side); err != nil {
		return err
	}
	return r.each(r.lanes(), func(lane []scenario.Scenario) error { return r.lane(t, lane, players) })
}

// opened is a cluster with a recorder, whose context ends when something of it does.
type opened struct {
	ctx         context.Context //nolint:containedctx // it is that of everything that runs in the background
	cancel      context.CancelCauseFunc
	testCluster *testCluster
	stage       play.Stage
	program     *stage.Program
}

func (h folders) opened(ctx context.Context, name string) (*opened, error) {
	b, err := h.open(ctx, name)
	if err != nil {
		return nil, err
	}
	t := &opened{testCluster: b}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	api, err := dynamic.NewForConfig(b.config())
	if err == nil {
		t.stage = play.Stage{API: api, Recorder: record.New(api), Calm: calm, Patience: patience}
		err = t.stage.Recorder.Start(t.ctx)
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// launch starts the controllers and the probes that show that their queues are empty.
func (t *opened) launch(s side) (err error) {
	if t.program, err = t.testCluster.launch(s); err != nil {
		return err
	}
	go func() {
		select {
		case <-t.program.Ended():
			t.cancel(fmt.Errorf("the controllers ended with exit code %d", t.program.ExitCode()))
		case <-t.ctx.Done():
		}
	}()
	for number := range probes {
		go func() {
			if err := t.stage.Probe(t.ctx, number); err != nil {
				t.cancel(err)
			}
		}()
	}
	return nil
}

func (t *opened) close() error {
	t.cancel(nil)
	if t.program != nil {
		t.program.Kill()
	}
	return t.testCluster.close()
}

// open makes the namespaces and takes the steps before the controllers start.
func (r *run) open(ctx context.Context, stage play.Stage) (map[string]*play.Player, error) {
	players := map[string]*play.Player{}
	var lanes [][]scenario.Scenario
	for _, s := range r.scenarios {
		players[s.Name] = play.New(stage, s)
		lanes = append(lanes, []scenario.Scenario{s})
	}
	return players, r.each(lanes, func(one []scenario.Scenario) error {
		p := players[one[0].Name]
		if err := p.CreateNamespace(ctx); err != nil {
			return err
		}
		if err := p.Before(ctx); err != nil {
			p.Failures = append(p.Failures, err.Error())
		}
		return ctx.Err()
	})
}

// lanes are the scenarios that have to be played one after another, the long lanes first.
func (r *run) lanes() (all [][]scenario.Scenario) {
	byName := map[string][]scenario.Scenario{}
	var free [][]scenario.Scenario
	for _, s := range r.scenarios {
		if s.Lane == "" {
			free = append(free, []scenario.Scenario{s})
		} else {
			byName[s.Lane] = append(byName[s.Lane], s)
		}
	}
	for _, lane := range byName {
		all = append(all, lane)
	}
	// Objects from before the start get events all the time, so these scenarios go first.
	slices.SortStableFunc(free, func(a, b []scenario.Scenario) int { return cmp.Compare(b[0].Cold, a[0].Cold) })
	return append(all, free...)
}

// each works on lanes at the same time, as many as are allowed.
func (r *run) each(lanes [][]scenario.Scenario, do func([]scenario.Scenario) error) error {
	slots, errs := make(chan struct{}, r.parallel), make([]error, len(lanes))
	var all sync.WaitGroup
	for i, lane := range lanes {
		slots <- struct{}{}
		all.Go(func() {
			errs[i] = do(lane)
			<-slots
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// lane plays scenarios one after another, and cleans up between them.
func (r *run) lane(t *opened, lane []scenario.Scenario, players map[string]*play.Player) error {
	ctx := t.ctx
	for _, s := range lane {
		p := players[s.Name]
		if err := p.After(ctx); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			p.Failures = append(p.Failures, err.Error())
		}
		history := p.History()
		res := report.Result{
			Outcome: outcome.Of(s.Name, history), Failures: append(p.Failures, explained.Changes(ctx, t.testCluster.server(), history)...),
			Violations: invariant.Check(history, p.Writes),
		}
		r.mu.Lock()
		r.results[s.Name] = res
		r.mu.Unlock()
		// The next of its lane must not find its objects, and upstream emits an event for every claim
		// that waits at every resync.
		if err := p.Scrub(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}
