package sim

import (
	"slices"
	"testing"
)

// resizeFamilies are the ways in which things go wrong around the resizer. In place of a deletion,
// the user asks for more, or names another class.
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
	{"two leaders, and the previous one sees nothing", staleRivals, true},
	{"outage", outages, true},
	{"the clock is set forward", clockJumps, false},
	{"everything deleted while something is missing", missingThings, false},
	{"two crashes", pairs, false},
	{"anything together", randomSchedules, false},
}

var resizePart = sweepPart{
	"resizing", slices.Concat(resizeWorkloads, vainResizes, modifyWorkloads), resizeFamilies, slices.Concat(resizeMutants, vainResizeMutants, modifyMutants),
	extent{every: 3, pairs: 40, wide: 18, chances: 30},
	extent{every: 40, pairs: 4, wide: 150, chances: 6},
}

// TestResizeFaultFree is every workload without faults, and what it costs.
func TestResizeFaultFree(t *testing.T) { resizePart.faultFree(t) }

// TestResizeSweep runs everything that can go wrong against every workload of expansion.
func TestResizeSweep(t *testing.T) { resizePart.sweepAll(t) }

// TestResizeMutants breaks the resizer in one way after the other; the sweep must notice each.
func TestResizeMutants(t *testing.T) { resizePart.killAllMutants(t) }
