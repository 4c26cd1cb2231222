package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of published storage capacities. The first three have upstream's names (ME-5).
var (
	metricCapacityGoal = Metric{
		"csistoragecapacities_desired_goal", "gauge", nil,
		"CSIStorageCapacity objects that should be published: one for each class and topology segment.",
	}
	metricCapacityCurrent = Metric{
		"csistoragecapacities_desired_current", "gauge", nil,
		"CSIStorageCapacity objects that should be published, and exist.",
	}
	metricCapacityObsolete = Metric{
		"csistoragecapacities_obsolete", "gauge", nil,
		"CSIStorageCapacity objects that exist and should not.",
	}
	// MetricCapacityOldest is the age of the capacities that the scheduler reads.
	MetricCapacityOldest = Metric{
		"purser_capacity_oldest_answer_seconds", "gauge",
		[]string{"class"},
		"Age of the oldest capacity that the driver returned for a segment, or the time since the start if there is " +
			"none, by class.",
	}
	// MetricCapacityFailing counts segments whose published capacity is out of date (S-9).
	MetricCapacityFailing = Metric{
		"purser_capacity_failing", "gauge",
		[]string{"class"},
		"Topology segments for which the driver's last answer to GetCapacity was an error, by class.",
	}
)

// CapacityState has the values of the metrics of storage capacities at one scrape.
type CapacityState struct {
	Goal, Current, Obsolete int
	Oldest                  map[string]time.Duration // by class
	Failing                 map[string]int           // by class
}

// capacities are gauges whose values are computed at each scrape.
type capacities struct {
	goal, current, obsolete, oldest, failing *prometheus.Desc
	state                                    func() CapacityState
}

// NewCapacities registers the metrics of published storage capacities.
func NewCapacities(registry prometheus.Registerer, state func() CapacityState) {
	describe := func(m Metric) *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }
	registry.MustRegister(capacities{
		describe(metricCapacityGoal), describe(metricCapacityCurrent), describe(metricCapacityObsolete),
		describe(MetricCapacityOldest), describe(MetricCapacityFailing), state,
	})
}

// Describe implements prometheus.Collector.
func (c capacities) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.goal, c.current, c.obsolete, c.oldest, c.failing} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c capacities) Collect(out chan<- prometheus.Metric) {
	state := c.state()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(c.goal, float64(state.Goal))
	gauge(c.current, float64(state.Current))
	gauge(c.obsolete, float64(state.Obsolete))
	for class, age := range state.Oldest {
		gauge(c.oldest, age.Seconds(), class)
		gauge(c.failing, float64(state.Failing[class]), class)
	}
}
