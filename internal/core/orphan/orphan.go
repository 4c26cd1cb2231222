package orphan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// View is what one look saw.
type View struct {
	Listed []string        // handles of all volumes that the driver has
	Known  map[string]bool // handles that PersistentVolumes name
	// Unsettled are the claims that had a request on record at the beginning or at the end of the
	// look. Each may have a volume by now, whose handle no process was told.
	Unsettled map[types.UID]bool
}

// Suspects are for the next look.
type Suspects struct {
	handles   map[string]bool
	unsettled map[types.UID]bool
}

// Found is what two looks in a row make certain.
type Found struct {
	Unknown   []string // handles that no object names, in alphabetical order
	Unsettled int      // as many of them may be volumes of requests on record, which are settled in time
}

// Orphans is how many of the unknown volumes are orphaned for certain.
func (f Found) Orphans() int { return max(0, len(f.Unknown)-f.Unsettled) }

// Look compares the two sides. A volume is unknown when this look and the one before say so:
// between CreateVolume and the PersistentVolume, and between the deletion of the one and of the
// other, every volume is for a moment. A request that stays on record through both looks excuses
// one of them; handles are opaque, so which one is not known.
func Look(before Suspects, now View) (Found, Suspects) {
	next := Suspects{handles: map[string]bool{}, unsettled: now.Unsettled}
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
	for claim := range now.Unsettled {
		if before.unsettled[claim] {
			found.Unsettled++
		}
	}
	return found, next
}
