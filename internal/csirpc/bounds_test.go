package csirpc

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// A driver's message and a request in the log are bounded, and cutting them leaves no part of a
// secret.
func TestLongTextsAreCut(t *testing.T) {
	got := Redact(strings.Repeat("x", maxText-3)+"hunter2"+strings.Repeat("y", 1<<20), map[string]string{"key": "hunter2"})
	if len(got) > maxText+40 || strings.Contains(got, "hun") || !strings.HasSuffix(got, "bytes more)") {
		t.Errorf("%d bytes, ends with %q", len(got), got[len(got)-60:])
	}
	request := &csi.CreateVolumeRequest{Name: strings.Repeat("é", 1<<20), Secrets: map[string]string{"key": "hunter2"}}
	if got := (stripped{request}).String(); len(got) > maxText+40 || strings.Contains(got, "hunter2") {
		t.Errorf("%d bytes of a request: %.100s", len(got), got)
	}
}
