package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// sourceFamilies are the ways in which things go wrong while volumes are made from others.
var sourceFamilies = []family{
	{"crash", crashes, false},
	{"crash, and the sources are deleted while we are down", crashesWithDeletion, false},
	{"sources deleted", deletions, false},
	{"sources deleted after a takeover", deletionsAfterTakeover, false},
	{"ended in order", ends, false},
	{"lost answer", lostAnswers, false},
	{"driver", driverFaults, false},
	{"crash, and a write arrives later", arrivals, false},
	{"two leaders", rivals, true},
	{"two leaders, and the former sees nothing", staleRivals, true},
	{"watch", watchFaults, true},
	{"two crashes", pairs, false},
	{"anything together", chance, false},
}

var sourceHalf = half{
	"sources", sourceWorkloads, sourceFamilies, sourceMutants,
	extent{every: 3, pairs: 60, wide: 30, chances: 60},
	extent{every: 400, pairs: 1, chances: 2},
}

// TestSourceFaultFree is every workload without faults.
func TestSourceFaultFree(t *testing.T) {
	for _, work := range sourceWorkloads {
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

// TestSourceSweep runs everything that can go wrong against every workload with sources.
func TestSourceSweep(t *testing.T) {
	began := time.Now()
	all := sourceHalf.sweep(t)
	fmt.Printf("sources: %d workloads, %d crash points, %d schedules with %d crashes that happened, %d violations, in %s\n",
		all.workloads, all.points, all.schedules, all.crashes, all.violations, time.Since(began).Round(time.Second))
}

// TestSourceMutants breaks the provisioner in one way after the other; the sweep must notice each.
func TestSourceMutants(t *testing.T) {
	killed := sourceHalf.hunt(t)
	fmt.Printf("sources: %d of %d mutants killed\n", killed, len(sourceHalf.mutants))
}
