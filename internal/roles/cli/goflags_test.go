package cli

import (
	"strings"
	"testing"
)

// AT-P1, RZ-P1.
func TestDoubleDashes(t *testing.T) {
	for args, want := range map[string]string{
		"-csi-address=/x -v=5":       "--csi-address=/x -v=5",
		"-csi-address /x -v 5":       "--csi-address /x -v 5",
		"--csi-address=/x --v=5":     "--csi-address=/x --v=5",
		"-qps -10":                   "--qps -10",
		"-- -csi-address":            "-- -csi-address",
		"--csi-address=-csi-address": "--csi-address=-csi-address",
	} {
		if got := strings.Join(DoubleDashes(strings.Fields(args)), " "); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}
