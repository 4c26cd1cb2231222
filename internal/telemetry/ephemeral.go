package telemetry

import "github.com/prometheus/client_golang/prometheus"

// The metrics of claims for ephemeral volumes, with upstream's names.
var (
	MetricEphemeralCreated = Metric{
		"ephemeral_volume_controller_create_total", "counter", nil,
		"Attempts to create a claim of a generic ephemeral volume.",
	}
	MetricEphemeralFailed = Metric{
		"ephemeral_volume_controller_create_failures_total", "counter", nil,
		"Failed attempts to create a claim of a generic ephemeral volume.",
	}
)

// EphemeralMetrics lists the metrics that [NewEphemeral] registers.
var EphemeralMetrics = []Metric{MetricEphemeralCreated, MetricEphemeralFailed}

// Ephemeral counts claims that are created for pods.
type Ephemeral struct{ created, failed prometheus.Counter }

// NewEphemeral registers the metrics, which are 0 from the start, as upstream's are.
func NewEphemeral(registry prometheus.Registerer) *Ephemeral {
	return &Ephemeral{
		NewCounter(registry, MetricEphemeralCreated).WithLabelValues(),
		NewCounter(registry, MetricEphemeralFailed).WithLabelValues(),
	}
}

// Attempted counts one attempt, and whether it failed. A nil receiver counts nothing.
func (e *Ephemeral) Attempted(err error) {
	if e == nil {
		return
	}
	e.created.Inc()
	if err != nil {
		e.failed.Inc()
	}
}
