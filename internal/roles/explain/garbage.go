package explain

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// spare is how much memory the recorder may take so that it collects garbage less often: each
	// change of an object leaves some, and a collection looks at all objects.
	spare = 64 << 20
	// leastPercent is the default of GOGC.
	leastPercent, mostPercent = 100, 1000
)

// saveTime has garbage collected less often if few objects are kept, unless the environment says when.
func saveTime() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	runtime.GC() // the lists were decoded
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetGCPercent(percentFor(m.HeapAlloc))
}

// percentFor returns by how many percent a heap of so many bytes grows with the spare memory; at least the
// default.
func percentFor(heap uint64) int {
	return int(min(max(leastPercent, spare*100/max(heap, 1)), mostPercent)) //nolint:gosec // it is bounded
}
