package scrape

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = `# TYPE csi_sidecar_operations_seconds histogram
csi_sidecar_operations_seconds_bucket{driver_name="d",grpc_status_code="OK",method_name="/csi.v1.Controller/CreateVolume",le="+Inf"} 3
csi_sidecar_operations_seconds_sum{driver_name="d",grpc_status_code="OK",method_name="/csi.v1.Controller/CreateVolume"} 0.1
csi_sidecar_operations_seconds_count{driver_name="d",grpc_status_code="OK",method_name="/csi.v1.Controller/CreateVolume"} 3
csi_sidecar_operations_seconds_bucket{driver_name="d",grpc_status_code="Aborted",method_name="/csi.v1.Controller/CreateVolume",le="+Inf"} 2
csi_sidecar_operations_seconds_sum{driver_name="d",grpc_status_code="Aborted",method_name="/csi.v1.Controller/CreateVolume"} 0.1
csi_sidecar_operations_seconds_count{driver_name="d",grpc_status_code="Aborted",method_name="/csi.v1.Controller/CreateVolume"} 2
# TYPE workqueue_depth gauge
workqueue_depth{name="claims"} 0
`

// Failed calls are counted too.
func TestCountCalls(t *testing.T) {
	got, err := countCalls(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Calls{"CreateVolume": 5}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSince(t *testing.T) {
	got := Calls{"CreateVolume": 5, "DeleteVolume": 1, "Probe": 2}.Since(Calls{"CreateVolume": 3, "Probe": 2})
	if diff := cmp.Diff(Calls{"CreateVolume": 2, "DeleteVolume": 1}, got); diff != "" {
		t.Error(diff)
	}
}
