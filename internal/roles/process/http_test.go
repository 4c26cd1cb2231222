package process

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/telemetry"
)

func get(t *testing.T, s *HTTPServer, path string) (int, string) {
	t.Helper()
	answer := httptest.NewRecorder()
	s.server.Handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Code, string(body)
}

// HT-1 to HT-3.
func TestHTTPPaths(t *testing.T) {
	var late error
	full := NewHTTPServer(HTTPConfig{Address: ":0", MetricsPath: "/m", Metrics: prometheus.NewRegistry(), Leader: func() error { return late }, Pprof: true})
	bare := NewHTTPServer(HTTPConfig{Address: ":0", MetricsPath: "/metrics", Metrics: prometheus.NewRegistry()})
	for _, tc := range []struct {
		server *HTTPServer
		path   string
		code   int
	}{
		{full, "/m", 200},
		{full, "/metrics", 404},
		{full, "/livez", 200},
		{full, "/healthz", 200},
		{full, "/healthz/leader-election", 200},
		{full, "/debug/pprof/", 200},
		{full, "/debug/pprof/cmdline", 200},
		{full, "/debug/pprof/goroutine?debug=1", 200},
		{bare, "/metrics", 200},
		{bare, "/healthz", 200},
		{bare, "/healthz/leader-election", 404},
		{bare, "/debug/pprof/", 404},
		{bare, "/", 404},
	} {
		if code, _ := get(t, tc.server, tc.path); code != tc.code {
			t.Errorf("%s: %d, want %d", tc.path, code, tc.code)
		}
	}
	if _, body := get(t, full, "/healthz/leader-election"); body != "ok" {
		t.Errorf("body %q", body)
	}
	late = errors.New("overdue")
	if code, body := get(t, full, "/healthz/leader-election"); code != 500 || body != "internal server error: overdue\n" {
		t.Errorf("%d %q", code, body)
	}
}

// What a process did last has names of claims, so that it is served only with --purser-life.
func TestHTTPLife(t *testing.T) {
	for args, want := range map[string]int{"": http.StatusNotFound, "--purser-life": http.StatusOK} {
		var settings HTTPSettings
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		settings.AddFlags(f)
		if err := f.Parse(strings.Fields("--http-endpoint=:0 " + args)); err != nil {
			t.Fatal(err)
		}
		s := NewHTTPServer(settings.ServerConfig(prometheus.NewRegistry(), telemetry.NewSpans("test"), nil))
		if code, _ := get(t, s, telemetry.PathSpans); code != want {
			t.Errorf("%q: %d, want %d", args, code, want)
		}
	}
}

func TestHTTPReadyNamesWhatIsNot(t *testing.T) {
	s := NewHTTPServer(HTTPConfig{MetricsPath: "/metrics", Metrics: prometheus.NewRegistry()})
	s.SetCheck("driver", func(context.Context) error { return nil })
	s.SetCheck("cache", NotYet("waiting for the driver"))
	if code, body := get(t, s, "/readyz"); code != 503 || body != "[-] cache: waiting for the driver\n[+] driver: ok\n" {
		t.Errorf("%d %q", code, body)
	}
	s.SetCheck("cache", func(context.Context) error { return nil })
	if code, _ := get(t, s, "/readyz"); code != 200 {
		t.Errorf("%d", code)
	}
}

// A port of 0 is any free one, and a port that is taken is an error with the name of the flag
// (ST-12).
func TestHTTPListens(t *testing.T) {
	s := NewHTTPServer(HTTPConfig{Address: "127.0.0.1:0", MetricsPath: "/metrics", Metrics: prometheus.NewRegistry()})
	where, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	taken := NewHTTPServer(HTTPConfig{Address: where.String(), MetricsPath: "/metrics", Metrics: prometheus.NewRegistry()})
	if _, err := taken.Listen(t.Context()); err == nil {
		t.Error("two servers on one port")
	}
}
