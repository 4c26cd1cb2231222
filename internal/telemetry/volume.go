package telemetry

import "github.com/prometheus/client_golang/prometheus"

// MetricVolumeAllocated is the space of each volume of `purser driver`, which kubelets do not know of a
// volume that is not mounted.
var MetricVolumeAllocated = Metric{
	"purser_driver_volume_allocated_bytes", "gauge",
	[]string{"driver", "volume_id"},
	"Bytes that a volume of the CSI driver takes of its filesystem, with what it shares with copies; loop images only.",
}

// volumes are gauges whose values are measured at each scrape.
type volumes struct {
	driver string
	gauge  *prometheus.Desc
	look   func() (map[string]int64, error)
}

// NewVolumes registers the metric of each volume of a driver. When look fails it is absent.
func NewVolumes(registry prometheus.Registerer, driver string, look func() (map[string]int64, error)) {
	m := MetricVolumeAllocated
	registry.MustRegister(volumes{driver, prometheus.NewDesc(m.Name, m.Help, m.Labels, nil), look})
}

// Describe implements prometheus.Collector.
func (v volumes) Describe(out chan<- *prometheus.Desc) { out <- v.gauge }

// Collect implements prometheus.Collector.
func (v volumes) Collect(out chan<- prometheus.Metric) {
	all, err := v.look()
	if err != nil {
		return
	}
	for id, bytes := range all {
		out <- prometheus.MustNewConstMetric(v.gauge, prometheus.GaugeValue, float64(bytes), v.driver, id)
	}
}
