package provision

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/telemetry"
)

// counted is a counter of the registry, over all labels.
func counted(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			sum += metric.GetCounter().GetValue()
		}
	}
	return sum
}

// ME-1, H-33: an attempt that the driver refused is a failure, also when the node is
// deselected for it (C-41). A node that is deselected without a call is no failure.
func TestAttemptsAreCounted(t *testing.T) {
	for _, tc := range []struct {
		row               string
		code              codes.Code
		objects           []client.Object
		node              string // selected afterwards
		succeeded, failed float64
	}{
		{"ME-1 made", codes.OK, []client.Object{theNode(), itsDrivers()}, "n1", 1, 0},
		{"ME-1 refused", codes.Internal, []client.Object{theNode(), itsDrivers()}, "n1", 0, 1},
		{"C-41 refused, and the node is deselected", codes.ResourceExhausted, []client.Object{theNode(), itsDrivers()}, "", 0, 1},
		{"H-33 the node is gone", codes.OK, nil, "", 0, 0},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := onNode(t, tc.objects...)
			r.Provisions = telemetry.NewProvisions(r.metrics)
			r.driver.create = tc.code
			r.run(t)
			if got := r.claim(t).Annotations[names.AnnSelectedNode]; got != tc.node {
				t.Errorf("selected node %q, want %q; events %q", got, tc.node, r.events)
			}
			succeeded := counted(t, r.metrics, "controller_persistentvolumeclaim_provision_total")
			failed := counted(t, r.metrics, "controller_persistentvolumeclaim_provision_failed_total")
			if succeeded != tc.succeeded || failed != tc.failed {
				t.Errorf("%g succeeded, %g failed; want %g, %g", succeeded, failed, tc.succeeded, tc.failed)
			}
		})
	}
}
