package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of provisioning and deletion, with upstream's names, labels and buckets (ME-1 to
// ME-3).
var (
	metricProvisioned = Metric{
		"controller_persistentvolumeclaim_provision_total", "counter",
		[]string{"class", "source"},
		"Volumes that were provisioned, by class and by the kind of the claim's data source.",
	}
	metricProvisionFailed = Metric{
		"controller_persistentvolumeclaim_provision_failed_total", "counter",
		[]string{"class", "source"},
		"Attempts to provision a volume that failed.",
	}
	metricProvisionDuration = Metric{
		"controller_persistentvolumeclaim_provision_duration_seconds", "histogram",
		[]string{"class", "source"},
		"Time to provision a volume, without failed attempts.",
	}
	metricDeleted = Metric{
		"controller_persistentvolume_delete_total", "counter",
		[]string{"class"},
		"Volumes that were deleted, by class.",
	}
	metricDeleteFailed = Metric{
		"controller_persistentvolume_delete_failed_total", "counter",
		[]string{"class"},
		"Attempts to delete a volume that failed.",
	}
	metricDeleteDuration = Metric{
		"controller_persistentvolume_delete_duration_seconds", "histogram",
		[]string{"class"},
		"Time to delete a volume, without failed attempts.",
	}
)

// Operations counts attempts by outcome and records the duration of those that succeeded.
type Operations struct {
	total, failed *prometheus.CounterVec
	duration      *prometheus.HistogramVec
}

// NewProvisions registers the metrics of provisioning; its labels are class and source.
func NewProvisions(registry prometheus.Registerer) *Operations {
	return newOperations(registry, metricProvisioned, metricProvisionFailed, metricProvisionDuration)
}

// NewDeletions registers the metrics of deletion; its label is the class.
func NewDeletions(registry prometheus.Registerer) *Operations {
	return newOperations(registry, metricDeleted, metricDeleteFailed, metricDeleteDuration)
}

func newOperations(registry prometheus.Registerer, total, failed, duration Metric) *Operations {
	o := &Operations{
		total:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: total.Name, Help: total.Help}, total.Labels),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: failed.Name, Help: failed.Help}, failed.Labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: duration.Name, Help: duration.Help, Buckets: prometheus.DefBuckets,
		}, duration.Labels),
	}
	registry.MustRegister(o.total, o.failed, o.duration)
	return o
}

// Succeeded counts a successful attempt. A nil receiver counts nothing.
func (o *Operations) Succeeded(took time.Duration, labels ...string) {
	if o == nil {
		return
	}
	o.total.WithLabelValues(labels...).Inc()
	o.duration.WithLabelValues(labels...).Observe(took.Seconds())
}

// Failed counts a failed attempt. A nil receiver counts nothing.
func (o *Operations) Failed(labels ...string) {
	if o == nil {
		return
	}
	o.failed.WithLabelValues(labels...).Inc()
}
