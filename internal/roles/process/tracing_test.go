package process

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/purser-csi/purser/internal/telemetry/tracing"
)

// The variables of the SDK say whether traces are sent; without an endpoint nothing is begun.
func TestStartTracing(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  map[string]string
		want bool
		says string
	}{
		{"no collector", nil, false, ""},
		{"a collector", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, true, "sending traces"},
		{"one for traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, true, ""},
		{"switched off", map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true",
		}, false, ""},
		{"no traces", map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none",
		}, false, ""},
		{"another protocol", map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
		}, false, "OTEL_EXPORTER_OTLP_PROTOCOL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, value := range tc.env {
				t.Setenv(name, value)
			}
			var said strings.Builder
			log := funcr.New(func(_, args string) { said.WriteString(args) }, funcr.Options{})
			traces, stop := StartTracing(logr.NewContext(t.Context(), log), "csi-provisioner", "test", TraceSettings{})
			stop()
			if (traces != nil) != tc.want || !strings.Contains(said.String(), tc.says) {
				t.Errorf("%v: %s", traces, said.String())
			}
		})
	}
}

// A collector that accepts connections and never answers delays the end of a process by a bound.
func TestHangingCollector(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	const token = "correct-horse-battery-staple"
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=%zz"+token) // cannot be read
	var said strings.Builder
	log := funcr.New(func(_, args string) { said.WriteString(args) }, funcr.Options{})
	traces, stop := StartTracing(logr.NewContext(t.Context(), log), "driver", "test", TraceSettings{})
	_, end := traces.Begin(t.Context(), tracing.Decision{Controller: "c", Reason: "r", At: time.Now()})
	end(tracing.Outcome{At: time.Now()})
	began := time.Now()
	stop()
	if took := time.Since(began); took > 2*lastSpans {
		t.Errorf("the end took %s", took)
	}
	if strings.Contains(said.String(), token) || !strings.Contains(said.String(), "not sent") {
		t.Error(said.String())
	}
}
