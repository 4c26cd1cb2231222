package record

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/telemetry"
)

// A role's texts are bounded, and a redirect leads to no other address.
func TestRole(t *testing.T) {
	redirected := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected = true }))
	defer elsewhere.Close()
	moved := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer moved.Close()
	spans := telemetry.NewSpans("test")
	spans.Add(telemetry.Span{Name: "CreateVolume", Volume: strings.Repeat("v", 1<<20)})
	spans.Add(telemetry.Span{Name: "DeleteVolume", Volume: "v"})
	role := httptest.NewServer(spans)
	defer role.Close()

	out := &buffer{}
	w := NewWriter(out, "test", ticking())
	for _, endpoint := range []string{moved.URL, role.URL} {
		NewRole(endpoint).Read(t.Context(), w)
	}
	var lines []Line
	for text := range strings.Lines(out.String()) {
		var line Line
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if redirected || len(lines) != 3 || lines[0].Op != Noted || !strings.Contains(lines[0].Note, "302") {
		t.Fatalf("redirected %v, lines %v", redirected, lines)
	}
	if got := lines[1].Call.Volume; len(got) > 1<<11 || lines[2].Call.Volume != "v" {
		t.Errorf("volumes of %d bytes and %q", len(got), lines[2].Call.Volume)
	}
}
