package telemetry

import "github.com/prometheus/client_golang/prometheus"

// The metrics of the filesystem on which `purser driver` keeps its volumes.
var (
	MetricPoolSize = Metric{
		"purser_driver_pool_size_bytes", "gauge", nil,
		"Size of the filesystem with the state directory of the CSI driver.",
	}
	MetricPoolFree = Metric{
		"purser_driver_pool_free_bytes", "gauge", nil,
		"Free bytes of the filesystem with the state directory of the CSI driver, without the reserve for deletions.",
	}
	MetricPoolFreeInodes = Metric{
		"purser_driver_pool_free_inodes", "gauge", nil,
		"Free inodes of that filesystem, without the reserve; absent where it has no fixed number of them.",
	}
	MetricPoolReserve = Metric{
		"purser_driver_pool_reserve_bytes", "gauge", nil,
		"Bytes that the CSI driver keeps allocated for deletions in a full pool; 0 while they are released.",
	}
	MetricPoolPromised = Metric{
		"purser_driver_pool_promised_bytes", "gauge", nil,
		"Bytes that the volumes and snapshots of the CSI driver may take together; loop images only.",
	}
	MetricPoolPromisable = Metric{
		"purser_driver_pool_promisable_bytes", "gauge", nil,
		"Bytes that can still be promised to volumes with the over-commit limit; loop images only.",
	}
)

// PoolState has the values of the metrics of a pool at one scrape. A negative one is absent.
type PoolState struct{ SizeBytes, FreeBytes, FreeInodes, ReserveBytes, Promised, Promisable int64 }

// pool are gauges whose values are measured at each scrape.
type pool struct {
	gauges []*prometheus.Desc
	look   func() (PoolState, error)
}

// NewPool registers the metrics of a pool. When look fails they are absent.
func NewPool(registry prometheus.Registerer, look func() (PoolState, error)) {
	p := pool{look: look}
	for _, m := range poolMetrics() {
		p.gauges = append(p.gauges, prometheus.NewDesc(m.Name, m.Help, m.Labels, nil))
	}
	registry.MustRegister(p)
}

func poolMetrics() []Metric {
	return []Metric{
		MetricPoolSize, MetricPoolFree, MetricPoolFreeInodes,
		MetricPoolReserve, MetricPoolPromised, MetricPoolPromisable,
	}
}

// Describe implements prometheus.Collector.
func (p pool) Describe(out chan<- *prometheus.Desc) {
	for _, d := range p.gauges {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (p pool) Collect(out chan<- prometheus.Metric) {
	s, err := p.look()
	if err != nil {
		return
	}
	for i, value := range []int64{s.SizeBytes, s.FreeBytes, s.FreeInodes, s.ReserveBytes, s.Promised, s.Promisable} {
		if value >= 0 {
			out <- prometheus.MustNewConstMetric(p.gauges[i], prometheus.GaugeValue, float64(value))
		}
	}
}
