package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of the PV controller, with the names and labels that upstream has for them
// (volume-controllers 1.16).
var (
	metricVolumeOperation = Metric{
		"volume_operation_total_seconds", "histogram",
		[]string{"plugin_name", "operation_name"},
		"Time from the provisioning of a volume to its binding (provision), and from its release to its end (delete).",
	}
	metricVolumeOperationErrors = Metric{
		"volume_operation_errors_total", "counter",
		[]string{"plugin_name", "operation_name"},
		"Steps of these operations that failed.",
	}
	metricRetroactiveClass = Metric{
		"retroactive_storageclass_total", "counter", nil,
		"Claims that were given the default StorageClass after their creation, failures included.",
	}
	metricRetroactiveClassErrors = Metric{
		"retroactive_storageclass_errors_total", "counter", nil,
		"Claims that could not be given the default StorageClass after their creation.",
	}
	// MetricForeignBinders should stay 0.
	MetricForeignBinders = Metric{
		"purser_foreign_binders_total", "counter",
		[]string{"manager"},
		"Other programs that were seen to bind claims, by their field manager. There must be none.",
	}
)

// The values of the label operation_name.
const (
	OperationProvision = "provision"
	OperationDelete    = "delete"
)

// BindingMetrics lists the metrics that [NewBinding] registers.
var BindingMetrics = []Metric{
	metricVolumeOperation,
	metricVolumeOperationErrors,
	metricRetroactiveClass,
	metricRetroactiveClassErrors,
}

// Binding records the operations of the PV controller.
type Binding struct {
	took                 *prometheus.HistogramVec
	failed               *prometheus.CounterVec
	assigned, unassigned prometheus.Counter
}

// NewBinding registers the metrics of the PV controller.
func NewBinding(registry prometheus.Registerer) *Binding {
	b := &Binding{
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metricVolumeOperation.Name, Help: metricVolumeOperation.Help,
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
		}, metricVolumeOperation.Labels),
		failed:     NewCounter(registry, metricVolumeOperationErrors),
		assigned:   NewCounter(registry, metricRetroactiveClass).WithLabelValues(),
		unassigned: NewCounter(registry, metricRetroactiveClassErrors).WithLabelValues(),
	}
	registry.MustRegister(b.took)
	return b
}

// Took records an operation that has succeeded.
func (b *Binding) Took(plugin, operation string, took time.Duration) {
	b.took.WithLabelValues(plugin, operation).Observe(took.Seconds())
}

// Failed counts a step that has failed.
func (b *Binding) Failed(plugin, operation string) { b.failed.WithLabelValues(plugin, operation).Inc() }

// ClassAssigned counts an attempt to assign the default class to a claim.
func (b *Binding) ClassAssigned(err error) {
	b.assigned.Inc()
	if err != nil {
		b.unassigned.Inc()
	}
}
