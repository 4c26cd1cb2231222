package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Keys of log lines. Every line of a controller has the object's key and the reason.
const (
	KeyClaim   = "claim"
	KeyVolume  = "volume"
	KeyClass   = "class"
	KeyNode    = "node"
	KeyDriver  = "driver"
	KeyReason  = "reason"
	KeyMessage = "message"
	KeyAttempt = "attempt"
	KeyRetry   = "retryIn"
)

// Metrics are the counters of the controllers.
type Metrics struct {
	Decisions *prometheus.CounterVec // by controller and reason
	InFlight  *prometheus.GaugeVec   // calls to the driver, by method
	Uncertain prometheus.GaugeFunc
}

// Names of our own metrics.
const (
	MetricDecisions = "purser_decisions_total"
	MetricInFlight  = "purser_csi_calls_in_flight"
	MetricUncertain = "purser_uncertain_volumes"
)

// NewMetrics registers the metrics. uncertain counts the CreateVolume calls whose outcome is not known.
func NewMetrics(registry prometheus.Registerer, uncertain func() int) *Metrics {
	m := &Metrics{
		Decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricDecisions, Help: "Decisions of the controllers, by the reason that the decision gives.",
		}, []string{"controller", "reason"}),
		InFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: MetricInFlight, Help: "Calls to the CSI driver that have not been answered yet.",
		}, []string{"method"}),
		Uncertain: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: MetricUncertain, Help: "CreateVolume requests whose outcome is not known yet.",
		}, func() float64 { return float64(uncertain()) }),
	}
	registry.MustRegister(m.Decisions, m.InFlight, m.Uncertain)
	return m
}
