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
	{"two leaders, and the former sees nothing", staleRivals, true},
	{"watch", watchFaults, true},
	{"two crashes", pairs, false},
	{"anything together", chance, false},
}

var sourceHalf = half{
	"sources", sourceWorkloads, sourceFamilies, sourceMutants,
	extent{every: 6, pairs: 30, wide: 60, chances: 30},
	extent{every: 400, pairs: 1, chances: 2},
}

// TestSourceFaultFree is every workload without faults.
func TestSourceFaultFree(t *testing.T) { sourceHalf.faultFree(t) }

// TestSourceSweep runs everything that can go wrong against every workload with sources.
func TestSourceSweep(t *testing.T) { sourceHalf.sweepAll(t) }

// TestSourceMutants breaks the provisioner in one way after the other; the sweep must notice each.
func TestSourceMutants(t *testing.T) { sourceHalf.huntAll(t) }
