package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of `purser driver`.
var (
	MetricServed = Metric{
		"purser_driver_calls_seconds", "histogram",
		[]string{"method", "grpc_status_code"},
		"Duration of the calls that the CSI driver has answered, by method and gRPC code.",
	}
	MetricServing = Metric{
		"purser_driver_calls_in_flight", "gauge",
		[]string{"method"},
		"Calls that the CSI driver is processing.",
	}
)

// Served records the calls that a CSI driver serves.
type Served struct {
	took    *prometheus.HistogramVec
	serving *prometheus.GaugeVec
}

// NewServed registers the metrics.
func NewServed(registry prometheus.Registerer) *Served {
	s := &Served{
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: MetricServed.Name, Help: MetricServed.Help,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, MetricServed.Labels),
		serving: prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: MetricServing.Name, Help: MetricServing.Help}, MetricServing.Labels,
		),
	}
	registry.MustRegister(s.took, s.serving)
	return s
}

// Begin records the start of a call, and returns the function that records its end. A nil Served
// records nothing.
func (s *Served) Begin(method string) (end func(code string)) {
	if s == nil {
		return func(string) {}
	}
	began := time.Now()
	s.serving.WithLabelValues(method).Inc()
	return func(code string) {
		s.serving.WithLabelValues(method).Dec()
		s.took.WithLabelValues(method, code).Observe(time.Since(began).Seconds())
	}
}
