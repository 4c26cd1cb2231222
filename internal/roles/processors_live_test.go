package roles

import (
	"runtime"
	"testing"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/process"
)

// LimitProcessors runs only for the roles that often share a machine with the API server.
func TestRolesThatLimitProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * process.MostProcessors))
	t.Setenv("GOMAXPROCS", "64")
	controllers.Command(cli.Program{}).PreRun(nil, nil)
	if got := runtime.GOMAXPROCS(0); got != 2*process.MostProcessors {
		t.Errorf("with GOMAXPROCS in the environment: %d, want %d", got, 2*process.MostProcessors)
	}
	t.Setenv("GOMAXPROCS", "")
	for _, c := range newRoot(cli.Program{}).Commands() {
		runtime.GOMAXPROCS(2 * process.MostProcessors)
		want := 2 * process.MostProcessors
		if c.Name() == "controllers" || c.Name() == "plane" {
			want = process.Processors(runtime.NumCPU(), want)
		}
		if c.PreRun != nil {
			c.PreRun(c, nil)
		}
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("%s: %d, want %d", c.Name(), got, want)
		}
	}
}
