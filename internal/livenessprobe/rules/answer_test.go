package rules

import (
	"strings"
	"testing"
	"time"
)

// The answer for each state of the driver.
func TestAnswer(t *testing.T) {
	for _, tc := range []struct {
		row    string
		driver Driver
		code   int
		text   string
	}{
		{"LP-12 ready", Driver{Named: true, Ready: true}, 200, "ok"},
		{"LP-12 not ready", Driver{Named: true}, 500, "driver responded but is not ready"},
		{"LP-12 an error", Driver{Named: true, Failed: "rpc error: code = Internal desc = disk"}, 500, "rpc error: code = Internal desc = disk"},
		{"LP-12 an error wins over a value", Driver{Named: true, Ready: true, Failed: "timeout"}, 500, "timeout"},
		{"LP-H3 not named", Driver{Problem: "connection refused"}, 503, "waiting for the csi driver to answer GetPluginInfo: connection refused"},
		{"LP-H3 Probe does not count before", Driver{Ready: true, Problem: "hangs"}, 503, "waiting for the csi driver to answer GetPluginInfo: hangs"},
	} {
		if code, text := Answer(tc.driver); code != tc.code || text != tc.text {
			t.Errorf("%s: %d %q, want %d %q", tc.row, code, text, tc.code, tc.text)
		}
	}
}

// LP-H1: a caller with a shorter timeout than the probe.
func TestLateWarning(t *testing.T) {
	for waited, want := range map[time.Duration]string{
		time.Second: "after 1s, before --probe-timeout=3s", 3 * time.Second: "", time.Minute: "",
	} {
		if got := LateWarning(waited, 3*time.Second); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("LP-H1 after %s: %q, want %q", waited, got, want)
		}
	}
}
