package csirpc

import (
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-lib-utils/metrics"
)

// ME-4: calls until GetPluginInfo have the driver_name unknown-driver, later ones the driver's name.
func TestCallsAreMeasuredWithTheDriversName(t *testing.T) {
	manager := metrics.NewCSIMetricsManagerWithOptions("", metrics.WithProcessStartTime(false), metrics.WithSubsystem(metrics.SubsystemSidecar))
	conn := dialWith(t, ready(), Config{Timeout: time.Second, Metrics: manager})
	if err := conn.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := conn.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	families, err := manager.GetRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, family := range families {
		if family.GetName() != "csi_sidecar_operations_seconds" {
			continue
		}
		for _, line := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range line.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			got[labels["method_name"]] += labels["driver_name"] + " "
		}
	}
	for method, want := range map[string]string{
		"/csi.v1.Identity/Probe":                       "csi.example unknown-driver ",
		"/csi.v1.Identity/GetPluginInfo":               "unknown-driver ",
		"/csi.v1.Identity/GetPluginCapabilities":       "csi.example ",
		"/csi.v1.Controller/ControllerGetCapabilities": "csi.example ",
	} {
		if got[method] != want {
			t.Errorf("%s has the names %q, want %q", method, got[method], want)
		}
	}
}
