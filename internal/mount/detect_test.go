package mount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDetectLeavesNothingBehind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	detection, err := Detect(dir)
	if err != nil {
		t.Fatal(err)
	}
	if detection.Mounter == nil || detection.Reason == "" {
		t.Errorf("Detect = %+v, want a mounter and a reason", detection)
	}
	t.Logf("Detect: %s", detection.Reason)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Without a place to try there is no answer: guessing "links" would let a
// privileged driver publish links into pods.
func TestDetectDoesNotGuess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if detection, err := Detect(file); err == nil {
		t.Errorf("Detect in a file = %+v, want an error", detection)
	}
}

func TestRefusedReasonSaysWhatFollows(t *testing.T) {
	tests := map[int]string{0: "CAP_SYS_ADMIN", 1000: "not root (user id 1000)"}
	for euid, want := range tests {
		got := refusedReason(euid)
		for _, part := range []string{want, "symbolic links", "read-only is not enforced"} {
			if !strings.Contains(got, part) {
				t.Errorf("reason for user %d is %q, want %q in it", euid, got, part)
			}
		}
	}
}
