package sim

import (
	"context"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	debug.SetGCPercent(800) // a run is small, and soon forgotten: the sweep takes two thirds of the time
	m.Run()
}

// result is what a run showed.
type result struct {
	work       workload
	schedule   schedule
	ops        int
	killed     int
	calls      []int // the operations that are calls to the driver
	violations []string
	trace      []string
	took       time.Duration // of virtual time, until nothing happens any more
}

func run(t *testing.T, work workload, s schedule, m mutant) result {
	t.Helper()
	r := result{work: work, schedule: s}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld(ctx, work, s, m)
		began := time.Now()
		w.play()
		r.took = time.Since(began)
		r.ops, r.calls = w.operations.count(), w.operations.callNumbers
		if work.polls { // the polls after the script are no place for a fault
			r.ops = w.scripted
			r.calls = slices.DeleteFunc(r.calls, func(n int) bool { return n > r.ops })
		}
		if w.deletesAll() {
			w.finale()
		}
		cancel()
		w.end()
		r.killed = w.processes.killed
		r.violations, r.trace = w.violations, w.lines
	})
	return r
}

func (r result) report(t *testing.T) {
	t.Helper()
	if len(r.violations) > 0 {
		t.Errorf("workload %q, %s:\n%s\n%s", r.work.name, r.schedule, strings.Join(r.violations, "\n"), strings.Join(r.trace, "\n"))
	}
}

// Without faults every workload ends well, and costs what it must (I6).
func TestFaultFree(t *testing.T) {
	for _, work := range slices.Concat(workloads, vainWorkloads, bindings, vainBindings) {
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
