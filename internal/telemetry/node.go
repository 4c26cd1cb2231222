package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// NodeMetrics are the metrics of the node agent, with the kubelet's names, labels and buckets
// (5.11).
var NodeMetrics = append([]Metric{metricCSIOperations}, volumeStats...)

var metricCSIOperations = Metric{
	"csi_operations_seconds", "histogram",
	[]string{"driver_name", "method_name", "grpc_status_code", "migrated"},
	"Duration of calls of the node agent to CSI drivers, by method and gRPC code. migrated is always false.",
}

var ofClaim = []string{"namespace", "persistentvolumeclaim"}

var volumeStats = []Metric{
	{"kubelet_volume_stats_capacity_bytes", "gauge", ofClaim, "Capacity in bytes of the volume."},
	{"kubelet_volume_stats_available_bytes", "gauge", ofClaim, "Number of available bytes in the volume."},
	{"kubelet_volume_stats_used_bytes", "gauge", ofClaim, "Number of used bytes in the volume."},
	{"kubelet_volume_stats_inodes", "gauge", ofClaim, "Maximum number of inodes in the volume."},
	{"kubelet_volume_stats_inodes_free", "gauge", ofClaim, "Number of free inodes in the volume."},
	{"kubelet_volume_stats_inodes_used", "gauge", ofClaim, "Number of used inodes in the volume."},
}

// NewCSIOperations registers the metric of the agent's calls to drivers, and returns the function
// that records a call.
func NewCSIOperations(registry prometheus.Registerer) func(driver, method, code string, took time.Duration) {
	calls := registered(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: metricCSIOperations.Name, Help: metricCSIOperations.Help,
		Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
	}, metricCSIOperations.Labels))
	return func(driver, method, code string, took time.Duration) {
		calls.WithLabelValues(driver, method, code, "false").Observe(took.Seconds())
	}
}

// usage are gauges whose values are read at each scrape.
type usage struct {
	descriptions []*prometheus.Desc
	of           func() map[types.NamespacedName]mounting.Stats
}

// NewVolumeStats registers the usage of volumes, by claim.
func NewVolumeStats(registry prometheus.Registerer, of func() map[types.NamespacedName]mounting.Stats) {
	u := usage{of: of}
	for _, m := range volumeStats {
		u.descriptions = append(u.descriptions, prometheus.NewDesc(m.Name, m.Help, m.Labels, nil))
	}
	registry.MustRegister(u)
}

// Describe implements prometheus.Collector.
func (u usage) Describe(out chan<- *prometheus.Desc) {
	for _, d := range u.descriptions {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (u usage) Collect(out chan<- prometheus.Metric) {
	for claim, s := range u.of() {
		for i, value := range []int64{s.Capacity, s.Available, s.Used, s.Inodes, s.InodesAvailable, s.InodesUsed} {
			out <- prometheus.MustNewConstMetric(
				u.descriptions[i], prometheus.GaugeValue, float64(value), claim.Namespace, claim.Name,
			)
		}
	}
}

// MetricRegistered is registered by node-driver-registrar only.
var MetricRegistered = Metric{
	"purser_driver_registered", "gauge",
	[]string{"driver_name"},
	"1 if the last answer of the kubelet is that it has registered the driver, 0 if it refused it.",
}
