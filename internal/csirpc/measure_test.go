package csirpc

import (
	"context"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
)

// counted returns the values of a label of csi_sidecar_operations_seconds by method, each followed
// by a blank; "none" where a series lacks the label.
func counted(t *testing.T, calls *CallMetrics, label string) map[string]string {
	t.Helper()
	families, err := calls.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, family := range families {
		if family.GetName() != "csi_sidecar_operations_seconds" {
			continue
		}
		for _, line := range family.GetMetric() {
			labels := map[string]string{label: "none"}
			for _, l := range line.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			got[labels["method_name"]] += labels[label] + " "
		}
	}
	return got
}

func compare(t *testing.T, got, want map[string]string) {
	t.Helper()
	for method, values := range want {
		if got[method] != values {
			t.Errorf("%s has the values %q, want %q", method, got[method], values)
		}
	}
}

// ME-4: calls until GetPluginInfo have the driver_name unknown-driver, later ones the driver's name.
func TestCallsAreMeasuredWithTheDriversName(t *testing.T) {
	calls := NewCallMetrics()
	conn := dialWith(t, ready(), Config{Timeout: time.Second, Metrics: calls})
	if err := conn.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := conn.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	compare(t, counted(t, calls, "driver_name"), map[string]string{
		"/csi.v1.Identity/Probe":                       "csi.example unknown-driver ",
		"/csi.v1.Identity/GetPluginInfo":               "unknown-driver ",
		"/csi.v1.Identity/GetPluginCapabilities":       "csi.example ",
		"/csi.v1.Controller/ControllerGetCapabilities": "csi.example ",
	})
}

// ME-4, AT-M1: the calls to a driver that took the place of an in-tree plugin have the label
// migrated; those to every other driver do not.
func TestCallsForInTreeVolumesAreMarked(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"ME-4: ebs.csi.aws.com": {
			"/csi.v1.Identity/GetPluginCapabilities":       "false ",
			"/csi.v1.Controller/ControllerGetCapabilities": "false true ",
		},
		"ME-4: csi.example": {"/csi.v1.Controller/ControllerGetCapabilities": "none "},
	} {
		t.Run(name, func(t *testing.T) {
			calls := NewCallMetrics()
			conn := dialWith(t, ready(func(d *driver) { d.info.Name = name[len("ME-4: "):] }), Config{Timeout: time.Second, Metrics: calls})
			for range 2 { // a driver that comes back is described again
				if _, err := conn.Describe(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			caller := (&trace{}).caller(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "in_flight"}, []string{"method"}))
			failure := caller.Do(t.Context(), Call{
				Method: "ControllerGetCapabilities", Migrated: true, Timeout: time.Second,
				Send: func(ctx context.Context, _ map[string]string) error {
					_, err := conn.Controller().ControllerGetCapabilities(ctx, &csi.ControllerGetCapabilitiesRequest{})
					return err
				},
			})
			if failure != nil {
				t.Fatal(failure.Words())
			}
			compare(t, counted(t, calls, "migrated"), want)
		})
	}
}
