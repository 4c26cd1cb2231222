package process

import (
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

// MostProcessors is more than any API server gives work for.
const MostProcessors = 4

// LimitProcessors leaves half of the machine to others before a role runs. What limits the
// controllers is the API server, often on the same machine, and each thread that looks for work
// takes time from it. Who sets GOMAXPROCS has decided otherwise.
func LimitProcessors(*cobra.Command, []string) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(Processors(runtime.NumCPU(), runtime.GOMAXPROCS(0)))
	}
}

// Processors are how many to use of those that the machine has, where so many are allowed.
func Processors(machine, allowed int) int {
	return min(allowed, max(machine/2, 1), MostProcessors)
}
