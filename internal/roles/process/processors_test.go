package process

import (
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
		{"a large machine", 64, 64, MostProcessors},
		{"a large machine, and a container with a limit", 64, 2, 2},
	} {
		if got := Processors(tc.machine, tc.allowed); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}
