package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// resizeFamilies are the ways in which things go wrong around the resizer. In place of a deletion,
// the user asks for more.
var resizeFamilies = []family{
	{"crash", crashes, false},
	{"crash, and a write arrives later", arrivals, false},
	{"crash, and more is asked for while we are down", crashesWithDeletion, false},
	{"ended in order", ends, false},
	{"more is asked for", deletions, false},
	{"lost answer", lostAnswers, false},
	{"slow write", slowWritesOfKept, false},
	{"driver", driverFaults, false},
	{"watch", bindingWatchFaults, true},
	{"two leaders", rivals, true},
	{"two leaders, and the former sees nothing", staleRivals, true},
	{"outage", outs, true},
	{"two crashes", pairs, false},
	{"anything together", chance, false},
}

var resizeHalf = half{
	"resizing", resizeWorkloads, resizeFamilies, resizeMutants,
	extent{every: 3, pairs: 40, wide: 18, chances: 30},
	extent{every: 40, pairs: 4, wide: 150, chances: 6},
}

// TestResizeFaultFree is every workload without faults, and what it costs.
func TestResizeFaultFree(t *testing.T) {
	for _, work := range resizeWorkloads {
		t.Run(strings.ReplaceAll(work.name, " ", "-"), func(t *testing.T) {
			r := run(t, work, schedule{}, mutant{})
			r.report(t)
			if testing.Verbose() {
				t.Log(strings.Join(r.trace, "\n"))
			}
		})
	}
}

// TestResizeSweep runs everything that can go wrong against every workload of expansion.
func TestResizeSweep(t *testing.T) {
	began := time.Now()
	all := resizeHalf.sweep(t)
	fmt.Printf("resizing: %d workloads, %d crash points, %d schedules with %d crashes that happened, %d violations, in %s\n",
		all.workloads, all.points, all.schedules, all.crashes, all.violations, time.Since(began).Round(time.Second))
}

// TestResizeMutants breaks the resizer in one way after the other; the sweep must notice each.
func TestResizeMutants(t *testing.T) {
	killed := resizeHalf.hunt(t)
	fmt.Printf("resizing: %d of %d mutants killed\n", killed, len(resizeHalf.mutants))
}
