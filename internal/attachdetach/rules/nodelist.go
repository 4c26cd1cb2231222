package attachment

import "time"

// ListSpacing is the longest time between an attach and the write of the node's list, and about what
// a kubelet needs anyway: it backs off for half a second when its node does not list a volume.
const ListSpacing = 500 * time.Millisecond

// ListWrite is what the time of the next write of a node's status.volumesAttached is decided from.
type ListWrite struct {
	Last     time.Time // of the write before; zero if it is long ago
	Detaches bool      // a volume that waits for the write is taken out of the list
	UnderWay bool      // further volumes are attached to the node, without an answer of the attacher
	Crowded  bool      // many workers wait for writes
}

// Due returns the time of the write: now, unless further volumes follow within a write's spacing. A
// volume that comes alone is listed at once, and so is the last one of many. A detach does not wait,
// since a pod on another node can wait for the volume. A clock that was set back delays nothing.
func (w ListWrite) Due(now time.Time) time.Time {
	due := w.Last.Add(ListSpacing)
	if !w.UnderWay || w.Detaches || w.Crowded || due.Sub(now) > ListSpacing || !due.After(now) {
		return now
	}
	return due
}

// MostListWrites returns how many nodes may be written at once while the lists of so many nodes are to
// change: one, and an eighth of many. Alone, a node does not wait. In a burst over many nodes each
// gathers further volumes while others are written, and waits for about eight writes on average, however
// many nodes there are; the last of 1,000 waits for about fifty.
func MostListWrites(nodes int) int { return max(1, nodes/8) }
