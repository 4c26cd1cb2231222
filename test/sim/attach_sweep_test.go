package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// attachFamilies are the ways in which things go wrong around those that attach.
var attachFamilies = []family{
	{"crash", soonBack, false},
	{"crash, and a write arrives later", arrivals, false},
	{"crash, and the pods are deleted while we are down", crashesWithDeletion, false},
	{"ended in order", ends, false},
	{"pods deleted", deletions, false},
	{"lost answer", lostAnswers, false},
	{"slow write", slowWritesOfKept, false},
	{"driver", driverFaults, false},
	{"watch", bindingWatchFaults, true},
	{"two leaders", rivals, true},
	{"two leaders, and the former sees nothing", staleRivals, true},
	{"two leaders, and a write of the former arrives later", slowRivals, true},
	{"outage", outs, true},
	{"two crashes", pairs, false},
	{"anything together", chance, false},
}

var attachHalf = half{
	"attaching", attachWorkloads, attachFamilies, attachMutants,
	extent{every: 7, pairs: 40, wide: 60, chances: 60},
	extent{every: 200, pairs: 2, chances: 4},
}

// TestAttachFaultFree is every workload without faults, and what it costs.
func TestAttachFaultFree(t *testing.T) {
	for _, work := range attachWorkloads {
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

// TestAttachSweep runs everything that can go wrong against every workload of attaching.
func TestAttachSweep(t *testing.T) {
	began := time.Now()
	all := attachHalf.sweep(t)
	fmt.Printf("attaching: %d workloads, %d crash points, %d schedules with %d crashes that happened, %d violations, in %s\n",
		all.workloads, all.points, all.schedules, all.crashes, all.violations, time.Since(began).Round(time.Second))
}

// TestAttachMutants breaks the controllers in one way after the other; the sweep must notice each.
func TestAttachMutants(t *testing.T) {
	killed := attachHalf.hunt(t)
	fmt.Printf("attaching: %d of %d mutants killed\n", killed, len(attachHalf.mutants))
}
