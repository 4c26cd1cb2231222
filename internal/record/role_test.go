package record

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
		NewRole(endpoint, nil).Read(t.Context(), w)
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

// A role that accepts connections and never answers is noted once, and delays neither the recorder nor its
// end.
func TestHangingRole(t *testing.T) {
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	r := NewRole(hangs.URL, nil)
	r.patience = 50 * time.Millisecond
	out := &buffer{}
	w := NewWriter(out, "test", ticking())
	began := time.Now()
	for range 3 {
		r.Read(t.Context(), w)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	r.Follow(ended, w)
	if took := time.Since(began); took > 100*r.patience {
		t.Errorf("it took %s", took)
	}
	if n := strings.Count(out.String(), `"op":"note"`); n != 1 {
		t.Errorf("%d notes: %s", n, out.String())
	}
}

// What an endpoint sends beyond the bound is not read.
func TestEndlessRole(t *testing.T) {
	sent := 0
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		part := []byte(strings.Repeat(" ", 1<<20))
		for {
			n, err := w.Write(part)
			if sent += n; err != nil {
				return
			}
		}
	}))
	if _, err := Spans(t.Context(), endless.URL, nil); err == nil {
		t.Error("no error")
	}
	endless.CloseClientConnections()
	endless.Close()
	if sent > 4*mostOfAnswer {
		t.Errorf("%d bytes were taken", sent)
	}
}
