package reconcile

import (
	"sync"
	"time"
)

// A key that is worked on again and again, with a success each time, is one that another client
// changes back, or that a view which is behind shows as it was. No controller needs so much: an
// object takes a handful of runs in its life, and objects of one name that come and go for as long
// as this take one life after the other.
const (
	churnRuns = 300
	churnTime = 30 * time.Second
	// churnKeys bounds what is remembered. Among more keys than this no single one goes fast.
	churnKeys = 1024
)

// churn counts the runs of each key that changed something. It is safe for concurrent use.
type churn[K comparable] struct {
	mu    sync.Mutex
	since time.Time
	runs  map[K]int
}

// acted counts one more run, and reports whether it is the first of too many.
func (c *churn[K]) acted(key K, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expire(now); c.runs == nil || len(c.runs) == churnKeys {
		c.since, c.runs = now, map[K]int{}
	}
	c.runs[key]++
	return c.runs[key] == churnRuns
}

// rest is how long a key is to be left alone.
func (c *churn[K]) rest(key K, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expire(now); c.runs[key] < churnRuns {
		return 0
	}
	return c.since.Add(churnTime).Sub(now)
}

// expire forgets all when its time is over. The caller holds mu.
func (c *churn[K]) expire(now time.Time) {
	if now.Sub(c.since) >= churnTime {
		c.runs = nil
	}
}
