package sim

import (
	"slices"
	"testing"
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
	{"two leaders, and the previous one sees nothing", staleRivals, true},
	{"two leaders, and a write of the previous one arrives later", slowRivals, true},
	{"outage", outages, true},
	{"the clock is set forward", clockJumps, false},
	{"everything deleted while something is missing", missingThings, false},
	{"two crashes", pairs, false},
	{"anything together", randomSchedules, false},
}

var attachPart = sweepPart{
	"attaching", slices.Concat(attachWorkloads, vainAttaching(attachingApart, ""), vainAttaching(attachingTogether, ", in one process")),
	attachFamilies, slices.Concat(attachMutants, vainAttachMutants),
	extent{every: 7, pairs: 40, wide: 60, chances: 60},
	extent{every: 200, pairs: 2, chances: 4},
}

// TestAttachFaultFree is every workload without faults, and what it costs.
func TestAttachFaultFree(t *testing.T) { attachPart.faultFree(t) }

// TestAttachSweep runs everything that can go wrong against every workload of attaching.
func TestAttachSweep(t *testing.T) { attachPart.sweepAll(t) }

// TestAttachMutants breaks the controllers in one way after the other; the sweep must notice each.
func TestAttachMutants(t *testing.T) { attachPart.killAllMutants(t) }
