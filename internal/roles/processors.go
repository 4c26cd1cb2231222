package roles

import (
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

// mostProcessors is more than any API server gives work for.
const mostProcessors = 4

// leaveProcessors leaves half of the machine to others before a role runs. What limits the controllers is the API server, often on the
// same machine, and each thread that looks for work takes time from it. Who sets GOMAXPROCS has decided otherwise.
func leaveProcessors(*cobra.Command, []string) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors(runtime.NumCPU(), runtime.GOMAXPROCS(0)))
	}
}

// processors are how many to use of those that the machine has, where so many are allowed.
func processors(machine, allowed int) int {
	return min(allowed, max(machine/2, 1), mostProcessors)
}
