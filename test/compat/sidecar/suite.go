package sidecar

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/compat/explained"
	"github.com/purser-csi/purser/test/compat/outcome"
	"github.com/purser-csi/purser/test/compat/play"
	"github.com/purser-csi/purser/test/compat/record"
	"github.com/purser-csi/purser/test/compat/report"
	"github.com/purser-csi/purser/test/compat/scenario"
	"github.com/purser-csi/purser/test/e2e/stage"
	"github.com/purser-csi/purser/test/explain/properties"
)

// Sidecar is one program beside one driver.
type Sidecar struct {
	Driver  Driver
	Program string   // in the folder of programs
	Args    []string // beside --csi-address and --kubeconfig
}

// Side is one implementation: a sidecar for each driver.
type Side struct {
	Name     string
	Sidecars []Sidecar
}

// Suite is a comparison of two sides.
type Suite struct {
	Bin, Dir  string // the folder of programs, and that of logs and data
	Scenarios []scenario.Scenario
	Sides     [2]Side // upstream's and ours
	Known     outcome.List
	Parallel  int           // scenarios at once
	Calm      time.Duration // in which nothing may happen to a scenario before it counts as settled
	// Prepare creates what all scenarios share, such as custom resource definitions; nil for nothing.
	Prepare func(ctx context.Context, api *rest.Config) error
}

const patience = 40 * time.Second

// Play plays all scenarios on both sides.
func (s Suite) Play(ctx context.Context) (r report.Report, err error) {
	var results [2]map[string]report.Result
	for i, side := range s.Sides {
		began := time.Now()
		if results[i], err = s.side(ctx, side); err != nil {
			return r, fmt.Errorf("%s: %w", side.Name, err)
		}
		r.Names[i], r.Took[i] = side.Name, time.Since(began).Round(time.Second).String()
	}
	for _, one := range s.Scenarios {
		r.Comparisons = append(r.Comparisons, report.Compare(one, results[0][one.Name], results[1][one.Name], s.Known))
	}
	return r, nil
}

// run is one side with everything that it needs.
type run struct {
	Suite
	cluster *cluster.Cluster
	stage   play.Stage
	script  *script
	players map[string]*play.Player
	ends    []func() // in the order of the starts
}

func (s Suite) side(ctx context.Context, side Side) (results map[string]report.Result, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	binaries, err := cluster.FindBinaries(cluster.Components{}.Programs(), s.Bin)
	if err != nil {
		return nil, err
	}
	r := &run{Suite: s, players: map[string]*play.Player{}}
	if r.cluster, err = cluster.Start(ctx, cluster.Config{
		Dir:      filepath.Join(s.Dir, side.Name),
		Binaries: binaries,
	}); err != nil {
		return nil, err
	}
	defer func() {
		for _, v := range slices.Backward(r.ends) {
			v()
		}
		err = errors.Join(err, r.cluster.Stop(context.WithoutCancel(ctx)))
	}()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	for _, one := range side.Sidecars {
		if err := r.launch(ctx, side, one, cancel); err != nil {
			return nil, err
		}
	}
	results = map[string]report.Result{}
	var mu sync.Mutex
	err = r.each(func(one scenario.Scenario) error {
		result, err := r.finish(ctx, one)
		mu.Lock()
		defer mu.Unlock()
		results[one.Name] = result
		return err
	})
	return results, err
}

// open connects, and takes the steps of all scenarios that come before the sidecars start.
func (r *run) open(ctx context.Context) error {
	if r.Prepare != nil {
		if err := r.Prepare(ctx, r.cluster.RESTConfig()); err != nil {
			return err
		}
	}
	api, err := dynamic.NewForConfig(r.cluster.RESTConfig())
	if err != nil {
		return err
	}
	recorder := record.New(api)
	r.script = newScript(recorder.Called)
	r.stage = play.Stage{API: api, Recorder: recorder, Calm: r.Calm, Patience: patience, Driver: r.script}
	if err := recorder.Start(ctx); err != nil {
		return err
	}
	go probe(ctx, recorder)
	for _, one := range r.Scenarios {
		r.players[one.Name] = play.New(r.stage, one)
	}
	return r.each(func(one scenario.Scenario) error {
		p := r.players[one.Name]
		if err := p.CreateNamespace(ctx); err != nil {
			return err
		}
		if err := p.Before(ctx); err != nil {
			p.Failures = append(p.Failures, err.Error())
		}
		return ctx.Err()
	})
}

// probe completes every probe at once, so that a scenario counts as settled when it is calm. Sidecars
// of different drivers have no common work that could show that their queues are empty.
func probe(ctx context.Context, recorder *record.Recorder) {
	for {
		select {
		case <-recorder.Wanted():
			recorder.Probed(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// launch starts a driver and the sidecar beside it.
func (r *run) launch(ctx context.Context, side Side, one Sidecar, failed context.CancelCauseFunc) error {
	dir, err := os.MkdirTemp("", "csi-") // short, as a socket's path must be
	if err != nil {
		return err
	}
	r.ends = append(r.ends, func() { os.RemoveAll(dir) })
	socket, stop, err := serve(ctx, dir, one.Driver, r.script)
	if err != nil {
		return err
	}
	r.ends = append(r.ends, stop)
	log, err := os.Create(filepath.Join(r.Dir, side.Name+"-"+one.Driver.Name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	program, err := stage.Launch(stage.Command{
		Path: filepath.Join(r.Bin, one.Program), Output: log, Env: []string{"KUBECONFIG="},
		Args: append(append([]string{}, one.Args...), "--csi-address="+socket, "--kubeconfig="+r.cluster.Kubeconfig()),
	})
	if err != nil {
		return err
	}
	stopped := make(chan struct{})
	r.ends = append(r.ends, func() { close(stopped); program.Kill() })
	go func() {
		select {
		case <-program.Ended():
			failed(fmt.Errorf("%s beside driver %s ended with exit code %d; its log is %s", one.Program, one.Driver.Name, program.ExitCode(), log.Name()))
		case <-stopped:
		}
	}()
	return nil
}

// finish takes the other steps of a scenario, and returns its result.
func (r *run) finish(ctx context.Context, one scenario.Scenario) (report.Result, error) {
	p := r.players[one.Name]
	if err := p.After(ctx); err != nil {
		if ctx.Err() != nil {
			return report.Result{}, fmt.Errorf("%s: %w", one.Name, context.Cause(ctx))
		}
		p.Failures = append(p.Failures, err.Error())
	}
	server := properties.Server{Kubectl: filepath.Join(r.Bin, "kubectl"), Kubeconfig: r.cluster.Kubeconfig()}
	result := report.Result{
		Outcome: outcome.Of(one.Name, p.History()), Failures: append(p.Failures, explained.Changes(ctx, server, p.History())...),
	}
	r.script.lines(one.Name, result.Outcome)
	return result, p.Scrub(ctx)
}

// each works on scenarios at once, as many as are allowed.
func (r *run) each(do func(scenario.Scenario) error) error {
	slots, errs := make(chan struct{}, r.Parallel), make([]error, len(r.Scenarios))
	var all sync.WaitGroup
	for i, one := range r.Scenarios {
		slots <- struct{}{}
		all.Go(func() {
			errs[i] = do(one)
			<-slots
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Text is the report as text.
func Text(r report.Report) string {
	var text strings.Builder
	r.Write(&text)
	return text.String()
}
