package roles

import (
	"runtime"
	"testing"
)

func TestProcessors(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		machine, allowed, want int
	}{
		{"one processor", 1, 1, 1},
		{"two", 2, 2, 1},
		{"four", 4, 4, 2},
		{"a large machine", 64, 64, mostProcessors},
		{"a large machine, and a container with a limit", 64, 2, 2},
	} {
		if got := processors(tc.machine, tc.allowed); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestLeaveProcessors runs before the roles that are often beside an API server, and before no other.
func TestLeaveProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * mostProcessors))
	t.Setenv("GOMAXPROCS", "64")
	newControllers(Program{}).PreRun(nil, nil)
	if got := runtime.GOMAXPROCS(0); got != 2*mostProcessors {
		t.Errorf("with GOMAXPROCS in the environment: %d, want %d", got, 2*mostProcessors)
	}
	t.Setenv("GOMAXPROCS", "")
	for _, c := range newRoot(Program{}).Commands() {
		runtime.GOMAXPROCS(2 * mostProcessors)
		want := 2 * mostProcessors
		if c.Name() == "controllers" || c.Name() == "plane" {
			want = processors(runtime.NumCPU(), want)
		}
		if c.PreRun != nil {
			c.PreRun(c, nil)
		}
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("%s: %d, want %d", c.Name(), got, want)
		}
	}
}
