package orphan

import (
	"maps"
	"slices"
)

// Listed are the handles of all volumes that the driver has.
type Listed []string

// Known are the handles of all volumes that PersistentVolumes name.
type Known map[string]bool

// Suspects are handles that one look found nobody to know of.
type Suspects map[string]bool

// Look compares the two sides. A volume is an orphan when this look and the one before find it unknown: between CreateVolume and
// the PersistentVolume, and between the deletion of the one and of the other, every volume is unknown for a moment. Orphans come
// in alphabetical order; suspects are for the next look.
func Look(before Suspects, listed Listed, known Known) (orphans []string, suspects Suspects) {
	suspects = Suspects{}
	for _, handle := range listed {
		if handle != "" && !known[handle] {
			suspects[handle] = true
		}
	}
	for _, handle := range slices.Sorted(maps.Keys(suspects)) {
		if before[handle] {
			orphans = append(orphans, handle)
		}
	}
	return orphans, suspects
}
