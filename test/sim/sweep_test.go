package sim

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// extent is how much of the sweep is run.
type extent struct {
	every int // the n-th schedule of each family; 1 is all
	pairs int // of crashes, for each small workload
	wide  int // the n-th of those with two simultaneous faults, of which there are many; 0 is as every

	chances int    // random schedules for each workload
	seed    uint64 // of the first of those
}

func (x extent) thin(all []schedule, wide bool) (some []schedule) {
	every := x.every
	if wide {
		every = max(every, x.wide)
	}
	for i := 0; i < len(all); i += every {
		some = append(some, all[i])
	}
	return some
}

// job is one run of a sweep.
type job struct {
	work     workload
	schedule schedule
	mutant   mutant
}

// calmly runs each workload without faults. WORKLOAD=WORDS keeps to those with the words in their names.
func calmly(t *testing.T, works []workload) (calm []result) {
	t.Helper()
	for _, work := range works {
		if !strings.Contains(work.name, os.Getenv("WORKLOAD")) {
			continue
		}
		calm = append(calm, run(t, work, schedule{}, mutant{}))
	}
	return calm
}

func jobs(calm []result, f family, x extent) (all []job) {
	for _, c := range calm {
		if c.work.few && !slices.Contains(fewFamilies, f.name) {
			continue
		}
		plan := f.plan(c, x)
		if f.name != "two crashes" {
			plan = x.thin(plan, f.wide)
		}
		for _, s := range plan {
			all = append(all, job{work: c.work, schedule: s})
		}
	}
	return all
}

// workers is how many runs go on at once.
const workers = 3

// sweep runs the jobs and calls each with every result, in any order. It ends early when each
// returns true.
func sweep(t *testing.T, all []job, each func(result) (enough bool)) {
	t.Helper()
	var (
		mu   sync.Mutex
		next int
		stop bool
		wg   sync.WaitGroup
	)
	take := func() (job, bool) {
		mu.Lock()
		defer mu.Unlock()
		if stop || next == len(all) {
			return job{}, false
		}
		next++
		return all[next-1], true
	}
	for range workers {
		wg.Go(func() {
			for j, ok := take(); ok; j, ok = take() {
				r := run(t, j.work, j.schedule, j.mutant)
				mu.Lock()
				stop = each(r) || stop
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// faultFree runs each workload without faults, and checks the number of writes and calls.
func (p sweepPart) faultFree(t *testing.T) {
	t.Helper()
	for _, work := range p.workloads {
		t.Run(strings.ReplaceAll(work.name, " ", "-"), func(t *testing.T) {
			r := run(t, work, schedule{}, mutant{})
			r.report(t)
			t.Logf("%d operations", r.ops)
			if testing.Verbose() {
				t.Log(strings.Join(r.trace, "\n"))
			}
		})
	}
}

// sweepAll runs each workload with the schedules of all families, and prints a summary.
func (p sweepPart) sweepAll(t *testing.T) {
	t.Helper()
	began := time.Now()
	all := p.sweep(t)
	fmt.Printf("%s: %d workloads, %d crash points, %d schedules with %d crashes that happened, %d violations, in %s\n",
		p.name, all.workloads, all.points, all.schedules, all.crashes, all.violations, time.Since(began).Round(time.Second))
}

// killAllMutants breaks the controllers in one way after the other: the sweep must notice each.
func (p sweepPart) killAllMutants(t *testing.T) {
	t.Helper()
	fmt.Printf("%s: %d of %d mutants killed\n", p.name, p.killMutants(t), len(p.mutants))
}

// wanted is little for the tests, what takes some minutes for SIM=whole, and all for
// SIM=everything. With SEED=N the random schedules differ; with FAMILY, a name, there is only
// that family.
func (p sweepPart) wanted() extent {
	x := p.much()
	x.seed, _ = strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	return x
}

func (p sweepPart) much() extent {
	switch os.Getenv("SIM") {
	case "everything":
		all := p.whole
		all.wide, all.chances = 0, 1000
		return all
	case "whole":
		return p.whole
	}
	return p.reduced
}

// sweepPart is the part of the sweep that tests the controllers of one processSet.
type sweepPart struct {
	name      string
	workloads []workload
	families  []family
	mutants   []mutant

	whole, reduced extent
}

var sweepParts = []sweepPart{
	{"provisioner", slices.Concat(workloads, vainWorkloads), families, slices.Concat(mutants, vainMutants), extent{every: 1, pairs: 260, wide: 8, chances: 130}, extent{every: 13, pairs: 20, chances: 130}},
	{"controllers", slices.Concat(bindings, vainBindings), bindingFamilies, slices.Concat(bindingMutants, vainBindingMutants), extent{every: 1, pairs: 150, wide: 12, chances: 90}, extent{every: 23, pairs: 10, chances: 115}},
}

// tally counts what a sweep has run and found.
type tally struct{ workloads, points, schedules, crashes, violations int }

func (s *tally) add(o tally) {
	s.workloads += o.workloads
	s.points += o.points
	s.schedules += o.schedules
	s.crashes += o.crashes
	s.violations += o.violations
}

// TestSweep runs each workload with the schedules of all families.
func TestSweep(t *testing.T) {
	began, all := time.Now(), tally{}
	for _, p := range sweepParts {
		t.Run(p.name, func(t *testing.T) { all.add(p.sweep(t)) })
	}
	fmt.Printf("workloads    %d\ncrash points %d, each before it is sent, after its effect and after its answer\n"+
		"schedules    %d, with %d crashes that happened, in %s\nviolations   %d\n",
		all.workloads, all.points, all.schedules, all.crashes, time.Since(began).Round(time.Second), all.violations)
}

func (p sweepPart) sweep(t *testing.T) tally {
	x, calm := p.wanted(), calmly(t, p.workloads)
	sum := tally{workloads: len(calm)}
	for _, c := range calm {
		sum.points += c.ops
	}
	fmt.Printf("%s: %d workloads, %d crash points\n", p.name, sum.workloads, sum.points)
	for _, f := range p.families {
		if only := os.Getenv("FAMILY"); only != "" && f.name != only {
			continue
		}
		started, all, bad := time.Now(), jobs(calm, f, x), 0
		sweep(t, all, func(r result) bool {
			sum.crashes += r.killed
			if len(r.violations) > 0 {
				if bad++; bad <= 3 {
					r.report(t)
				}
			}
			return false
		})
		sum.schedules, sum.violations = sum.schedules+len(all), sum.violations+bad
		fmt.Printf("  %-54s %6d schedules %4d violations %8s\n", f.name, len(all), bad, time.Since(started).Round(time.Millisecond))
	}
	return sum
}
