package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metricMetadata is upstream's metric of its service of snapshot metadata (CB-20), without the
// labels target_snapshot and base_snapshot: their number would grow with each snapshot (CB-H3).
var metricMetadata = Metric{
	"snapshot_metadata_controller_operations_seconds", "histogram",
	[]string{"driver_name", "method_name", "grpc_status_code"},
	"Duration of requests for the blocks of snapshots, by gRPC code. The methods are MetadataAllocated and " +
		"MetadataDelta.",
}

// NewMetadataOperations registers the metric and returns a function that counts a request.
func NewMetadataOperations(
	registry prometheus.Registerer,
) func(driver, method, code string, took time.Duration) {
	histogram := registered(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: metricMetadata.Name, Help: metricMetadata.Help, Buckets: snapshotBuckets,
	}, metricMetadata.Labels))
	return func(driver, method, code string, took time.Duration) {
		histogram.WithLabelValues(driver, method, code).Observe(took.Seconds())
	}
}
