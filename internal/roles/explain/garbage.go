package explain

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// spare is how much memory the recorder may take so that it collects garbage less often: each
	// change of an object leaves some, and a collection looks at all objects.
	spare = 64 << 20
	// leastPercent is the default of GOGC.
	leastPercent, mostPercent = 100, 1000
)

// adjusted is how often the objects that are kept are measured: a cluster grows.
const adjusted = 10 * time.Second

// saveTime has garbage collected less often while few objects are kept, unless the environment says when.
// It ends with ctx.
func saveTime(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	runtime.GC() // the lists were decoded
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(adjusted)
	defer tick.Stop()
	for {
		metrics.Read(live)
		kept := live[0].Value.Uint64()
		debug.SetGCPercent(percentFor(kept))
		debug.SetMemoryLimit(limitFor(kept)) // for what is kept before the next tick
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// limitFor returns the bytes of memory above which garbage is collected more often than percentFor says.
func limitFor(heap uint64) int64 {
	return int64(min(2*heap+4*spare, math.MaxInt64)) //nolint:gosec // it is bounded
}

// percentFor returns by how many percent a heap of so many bytes grows with the spare memory; at least the
// default.
func percentFor(heap uint64) int {
	return int(min(max(leastPercent, spare*100/max(heap, 1)), mostPercent)) //nolint:gosec // it is bounded
}
