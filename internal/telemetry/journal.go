package telemetry

import "github.com/prometheus/client_golang/prometheus"

// MetricJournalBytes is about the journal of CreateVolume requests.
var MetricJournalBytes = Metric{
	"purser_journal_bytes", "gauge", nil,
	"Size of the unresolved CreateVolume requests in the journal. At 204800 it is full, and claims wait.",
}

// NewJournalBytes registers the metric.
func NewJournalBytes(registry prometheus.Registerer, size func() int) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: MetricJournalBytes.Name, Help: MetricJournalBytes.Help,
	}, func() float64 { return float64(size()) }))
}
