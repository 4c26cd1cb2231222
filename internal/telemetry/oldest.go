package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// MetricOldest is the age of the oldest pending claim by class, which the alerts use.
var MetricOldest = Metric{
	"purser_oldest_pending_claim_seconds", "gauge",
	[]string{"class"},
	"Age of the oldest claim that is for this driver and has no volume yet, by class.",
}

// oldest is a gauge whose values are computed at each scrape.
type oldest struct {
	description *prometheus.Desc
	ages        func() map[string]time.Duration
}

// NewOldest registers the ages of the oldest pending claims, by class.
func NewOldest(registry prometheus.Registerer, ages func() map[string]time.Duration) {
	registry.MustRegister(oldest{
		prometheus.NewDesc(MetricOldest.Name, MetricOldest.Help, MetricOldest.Labels, nil), ages,
	})
}

// Describe implements prometheus.Collector.
func (o oldest) Describe(out chan<- *prometheus.Desc) { out <- o.description }

// Collect implements prometheus.Collector.
func (o oldest) Collect(out chan<- prometheus.Metric) {
	for class, age := range o.ages() {
		out <- prometheus.MustNewConstMetric(o.description, prometheus.GaugeValue, age.Seconds(), class)
	}
}
