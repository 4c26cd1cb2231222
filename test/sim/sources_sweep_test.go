package sim

import "testing"

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
	{"two leaders, and the previous one sees nothing", staleRivals, true},
	rivalsOfSources,
	{"watch", watchFaults, true},
	{"the clock is set forward", clockJumps, false},
	{"everything deleted while something is missing", missingThings, false},
	{"two crashes", pairs, false},
	{"anything together", randomSchedules, false},
}

// rivalsOfSources is a second leader, which has the requests that the previous leader resolved
// since its last write of the journal, while everything is deleted. [TestSourceRivals] runs
// all of it.
var rivalsOfSources = family{"two leaders, and the sources are deleted", func(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		for _, at := range []int{n, n + 1, n + 3} {
			all = append(all, schedule{rivalAt: n, deleteAt: at})
		}
	}
	return all
}, false}

var sourcesPart = sweepPart{
	"sources", sourceWorkloads, sourceFamilies, sourceMutants,
	extent{every: 6, pairs: 30, wide: 60, chances: 30},
	extent{every: 400, pairs: 1, chances: 2},
}

// TestSourceFaultFree is every workload without faults.
func TestSourceFaultFree(t *testing.T) { sourcesPart.faultFree(t) }

// TestSourceSweep runs everything that can go wrong against every workload with sources.
func TestSourceSweep(t *testing.T) { sourcesPart.sweepAll(t) }

// TestSourceRivals is each schedule of one family, whatever the extent of the sweep is.
func TestSourceRivals(t *testing.T) {
	all := jobs(calmly(t, sourceWorkloads), rivalsOfSources, extent{every: 1})
	sweep(t, all, func(r result) (enough bool) {
		r.report(t)
		return len(r.violations) > 0
	})
	t.Logf("%d schedules", len(all))
}

// TestSourceMutants breaks the provisioner in one way after the other; the sweep must notice each.
func TestSourceMutants(t *testing.T) { sourcesPart.killAllMutants(t) }
