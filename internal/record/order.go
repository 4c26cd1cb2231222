package record

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

// versionOf returns the number by which a change is ordered among others, and whether its time is: it
// was made at the latest when one with a higher number was seen. An object that existed is before
// all others. Events may be kept in a store of their own, with versions that cannot be compared; they
// stay where they were seen.
func versionOf(c life.Change) (version uint64, isTimed bool) {
	if c.Existed {
		return 0, false
	}
	if c.Kind == explain.Event {
		return math.MaxUint64, false
	}
	version, err := strconv.ParseUint(c.Object.GetResourceVersion(), 10, 64)
	if err != nil {
		return math.MaxUint64, false
	}
	return version, true
}

// ordered puts changes into the order in which the API server made them, which has a watch for each
// kind and delivers some later than others.
func ordered(changes []life.Change) []life.Change {
	type step struct {
		life.Change

		version uint64
	}
	steps := make([]step, len(changes))
	var timed []*step
	for i, c := range changes {
		version, isTimed := versionOf(c)
		steps[i] = step{c, version}
		if isTimed {
			timed = append(timed, &steps[i])
		}
	}
	slices.SortStableFunc(timed, func(a, b *step) int { return cmp.Compare(a.version, b.version) })
	for i := len(timed) - 2; i >= 0; i-- {
		if next := timed[i+1].At; timed[i].At.After(next) {
			timed[i].At = next
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.version, b.version))
	})
	all := make([]life.Change, len(steps))
	for i, s := range steps {
		all[i] = s.Change
	}
	return all
}

// extend adds changes to an index in the order of [ordered], of which it has the earlier ones.
func extend(index *life.Index, later []life.Change) {
	if len(later) == 0 {
		return
	}
	known := index.Changes()
	from := firstAfter(known, later)
	index.Revise(from, ordered(slices.Concat(known[from:], later)))
}

// firstAfter returns how many of the known changes, which are in order, come before all later ones in
// any case.
func firstAfter(known, later []life.Change) int {
	earliest, lowest := later[0].At, uint64(math.MaxUint64)
	for _, c := range later {
		if c.At.Before(earliest) {
			earliest = c.At
		}
		if version, isTimed := versionOf(c); isTimed {
			lowest = min(lowest, version)
		}
	}
	// The times of those that have versions grow with their versions.
	for _, c := range slices.Backward(known) {
		version, isTimed := versionOf(c)
		if isTimed && version <= lowest {
			break
		}
		if isTimed && c.At.Before(earliest) {
			earliest = c.At
		}
	}
	n, _ := slices.BinarySearchFunc(known, earliest, func(c life.Change, at time.Time) int { return c.At.Compare(at) })
	return n
}
