package process

import (
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

// MostProcessors is the highest GOMAXPROCS that is set. With more, the API server is the
// bottleneck.
const MostProcessors = 4

// LimitProcessors sets GOMAXPROCS before a role runs, so that half of the machine is left to other
// processes. The bottleneck is the API server, often on the same machine, and each thread that
// looks for work takes processor time from it. It does nothing if GOMAXPROCS is set.
func LimitProcessors(*cobra.Command, []string) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(Processors(runtime.NumCPU(), runtime.GOMAXPROCS(0)))
	}
}

// Processors returns GOMAXPROCS for a machine with so many processors, of which so many are
// allowed.
func Processors(machine, allowed int) int {
	return min(allowed, max(machine/2, 1), MostProcessors)
}
