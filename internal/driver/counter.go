package driver

import (
	"cmp"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
)

// Counter counts calls by method and code. It may be read at any time.
type Counter struct {
	mu     sync.Mutex
	counts map[call]uint64
}

type call struct {
	method string
	code   codes.Code
}

// Count says how many calls of a method ended with a code.
type Count struct {
	// Method is the RPC's name, for example CreateVolume.
	Method string
	Code   codes.Code
	Calls  uint64
}

func newCounter() *Counter { return &Counter{counts: map[call]uint64{}} }

// Counts lists everything that was called, ordered by method and code.
func (c *Counter) Counts() []Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make([]Count, 0, len(c.counts))
	for key, calls := range c.counts {
		counts = append(counts, Count{Method: key.method, Code: key.code, Calls: calls})
	}
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Method, b.Method), cmp.Compare(a.Code, b.Code))
	})
	return counts
}

// Calls says how often a method was answered, with whatever code.
func (c *Counter) Calls(method string) uint64 {
	var sum uint64
	for _, count := range c.Counts() {
		if count.Method == method {
			sum += count.Calls
		}
	}
	return sum
}

func (c *Counter) add(method string, code codes.Code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[call{method, code}]++
}
