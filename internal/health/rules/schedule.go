package health

import (
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// CallsPerSecond is how many calls about single volumes are made in a second at most, on average over a
// period. Upstream makes ten in a minute, whatever the number of volumes (HM-H1).
const CallsPerSecond = 10

// Period returns how often each of some volumes is checked by a call of its own: as the flag says, or less
// often where that is more than [CallsPerSecond].
func Period(volumes int, every time.Duration) time.Duration {
	return max(every, Spread(volumes))
}

// Spread returns the time over which calls about some volumes are spread.
func Spread(volumes int) time.Duration {
	return time.Duration(volumes) * time.Second / CallsPerSecond
}

// slot returns the first time from a given one on that is the turn of a volume. Its turn is at a place of
// its own in the period, so that the volumes of a start, or of a burst, are not all checked at once.
func slot(uid types.UID, from time.Time, period time.Duration) time.Time {
	if period <= 0 {
		return from
	}
	offset, at := place(uid, period), time.Duration(from.UnixNano())%period
	return from.Add((offset - at + period) % period)
}

// place returns the place of a volume within a period: the same each time.
func place(uid types.UID, period time.Duration) time.Duration {
	if period <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // it returns no error
	return time.Duration(h.Sum64() % uint64(period))
}
