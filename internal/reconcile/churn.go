package reconcile

import (
	"sync"
	"time"
)

// A key whose runs succeed again and again is in a hot loop: another client changes the object back,
// or a stale cache shows it as it was. An object takes a handful of runs in its life, so these limits
// leave room for many objects of one name, one after the other.
const (
	churnRuns = 300
	churnTime = 30 * time.Second
	// churnKeys bounds the number of counted keys. Among more keys none is run often.
	churnKeys = 1024
)

// churn counts the runs of each key that changed something. It is safe for concurrent use.
type churn[K comparable] struct {
	mu    sync.Mutex
	since time.Time
	runs  map[K]int
}

// acted counts one more run, and reports whether it is the first above the limit.
func (c *churn[K]) acted(key K, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expire(now); c.runs == nil || len(c.runs) == churnKeys {
		c.since, c.runs = now, map[K]int{}
	}
	c.runs[key]++
	return c.runs[key] == churnRuns
}

// rest returns the delay before the next run of a key.
func (c *churn[K]) rest(key K, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expire(now); c.runs[key] < churnRuns {
		return 0
	}
	return c.since.Add(churnTime).Sub(now)
}

// expire clears the counts when their interval is over. The caller holds mu.
func (c *churn[K]) expire(now time.Time) {
	if now.Sub(c.since) >= churnTime {
		c.runs = nil
	}
}
