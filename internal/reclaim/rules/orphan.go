package reclaim

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// OrphanView is the state at one comparison.
type OrphanView struct {
	Listed []string        // handles of all volumes that the driver has
	Known  map[string]bool // handles that PersistentVolumes name
	// Unresolved are the claims with a journal entry at the beginning or at the end of the
	// comparison. Each may have a volume by now whose handle no process knows.
	Unresolved map[types.UID]bool
}

// Suspects is the state that the next comparison needs.
type Suspects struct {
	handles    map[string]bool
	unresolved map[types.UID]bool
}

// Found is the result of two comparisons in a row.
type Found struct {
	Unknown    []string // handles that no object names, in alphabetical order
	Unresolved int      // how many of them may be volumes of unresolved journal entries
}

// Orphans returns how many of the unknown volumes are certainly orphaned.
func (f Found) Orphans() int { return max(0, len(f.Unknown)-f.Unresolved) }

// CompareOrphans compares the volumes of the backend with the PersistentVolumes. A volume is unknown if
// two comparisons in a row say so: every volume is unknown for a moment between CreateVolume and
// the PersistentVolume, and between their deletions. A journal entry that is unresolved in both may
// account for one unknown volume; handles are opaque, so which one is not known.
func CompareOrphans(before Suspects, now OrphanView) (Found, Suspects) {
	next := Suspects{handles: map[string]bool{}, unresolved: now.Unresolved}
	for _, handle := range now.Listed {
		if handle != "" && !now.Known[handle] {
			next.handles[handle] = true
		}
	}
	var found Found
	for _, handle := range slices.Sorted(maps.Keys(next.handles)) {
		if before.handles[handle] {
			found.Unknown = append(found.Unknown, handle)
		}
	}
	for claim := range now.Unresolved {
		if before.unresolved[claim] {
			found.Unresolved++
		}
	}
	return found, next
}
