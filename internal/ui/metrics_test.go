package ui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func scrapeOf(t *testing.T, seconds int, text string) *Scrape {
	t.Helper()
	s := NewScrape(noon.Add(time.Duration(seconds) * time.Second))
	if err := s.Add(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return s
}

// Rates and percentiles are those of the time between two scrapes, summed over roles.
func TestRates(t *testing.T) {
	r := &Rates{
		scrapeOf(t, 0, `# TYPE purser_decisions_total counter
purser_decisions_total{controller="claims",reason="A"} 5
# TYPE csi_sidecar_operations_seconds histogram
csi_sidecar_operations_seconds_bucket{method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="OK",le="1"} 1
csi_sidecar_operations_seconds_bucket{method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="OK",le="2"} 1
csi_sidecar_operations_seconds_bucket{method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="OK",le="+Inf"} 1
csi_sidecar_operations_seconds_sum{method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="OK"} 1
csi_sidecar_operations_seconds_count{method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="OK"} 1
`),
		scrapeOf(t, 10, `# TYPE purser_decisions_total counter
purser_decisions_total{controller="claims",reason="A"} 10
purser_decisions_total{controller="other",reason="A"} 10
purser_decisions_total{controller="claims",reason="B"} 40
# TYPE csi_sidecar_operations_seconds histogram
csi_sidecar_operations_seconds_bucket{method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="OK",le="1"} 11
csi_sidecar_operations_seconds_bucket{method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="OK",le="2"} 21
csi_sidecar_operations_seconds_bucket{method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="OK",le="+Inf"} 21
csi_sidecar_operations_seconds_sum{method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="OK"} 1
csi_sidecar_operations_seconds_count{method_name="/csi.v1.Controller/CreateVolume",grpc_status_code="OK"} 21
`),
	}
	decisions := r.Decisions()
	if len(decisions) != 2 || decisions[0] != (rateView{Name: "B", Second: 4}) || decisions[1] != (rateView{Name: "A", Second: 1.5}) {
		t.Errorf("decisions %+v", decisions)
	}
	calls := r.Calls()
	if len(calls) != 1 || calls[0].Second != 2 || calls[0].Half != time.Second || calls[0].Most.Round(10*time.Millisecond) != 1980*time.Millisecond {
		t.Errorf("calls %+v", calls)
	}
}

// The metrics and labels are those of the dashboard.
func TestMetricsOfDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "monitoring", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`sum by (reason) (rate(` + metricDecisions, `sum by (` + labelMethod + `, ` + labelCode + `) (rate(` + metricCalls + `_count`,
		`histogram_quantile(0.99, sum by (le, driver_name) (rate(` + metricCalls + `_bucket`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the dashboard has no %s", want)
		}
	}
}
