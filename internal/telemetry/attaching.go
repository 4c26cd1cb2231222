package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of attaching. The first three have upstream's names and labels (volume-controllers
// 4.12); upstream does not have the others.
var (
	MetricAttachableInUse = Metric{
		"storage_count_attachable_volumes_in_use", "gauge",
		[]string{"node", "volume_plugin"},
		"Volumes of pods that are attached for them, by node.",
	}
	MetricAttachTotal = Metric{
		"attachdetach_controller_total_volumes", "gauge",
		[]string{"plugin_name", "state"},
		"Volumes that nodes need (desired_state_of_world) and that they have or may have (actual_state_of_world).",
	}
	MetricStorageOperation = Metric{
		"storage_operation_duration_seconds", "histogram",
		[]string{"migrated", "operation_name", "status", "volume_plugin"},
		"Time from the write of a VolumeAttachment, or its deletion, to the result of the attacher: volume_attach " +
			"and volume_detach.",
	}
	MetricAttachWait = Metric{
		"purser_attach_wait_seconds", "histogram",
		[]string{"driver"},
		"Time from the scheduling of a pod that needs a volume to its entry in status.volumesAttached of the node, " +
			"for which the kubelet waits.",
	}
	MetricDetachesWaiting = Metric{
		"purser_detaches_waiting", "gauge",
		[]string{"driver", "reason"},
		"Volumes that are attached to nodes which do not need them any more, by the reason why they are not detached " +
			"yet.",
	}
	MetricOldestDetach = Metric{
		"purser_oldest_waiting_detach_seconds", "gauge",
		[]string{"driver", "reason"},
		"Age of the oldest detach of purser_detaches_waiting.",
	}
	MetricAttachConflicts = Metric{
		"purser_multi_attach_conflicts", "gauge",
		[]string{"driver"},
		"Nodes that need an exclusive volume which is attached, or may be attached, to another node.",
	}
)

// Emit reports one value of the gauge with this name.
type Emit func(name string, value float64, labels ...string)

// Attaching records the duration of attaches and detaches. A nil value records nothing.
type Attaching struct {
	waited, operations *prometheus.HistogramVec
}

// NewAttaching registers the metrics of attaching. collect is called at each scrape and reports the
// values of the gauges.
func NewAttaching(registry prometheus.Registerer, collect func(Emit)) *Attaching {
	a := &Attaching{
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: MetricAttachWait.Name, Help: MetricAttachWait.Help,
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600},
		}, MetricAttachWait.Labels),
		operations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: MetricStorageOperation.Name, Help: MetricStorageOperation.Help,
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}, // upstream's
		}, MetricStorageOperation.Labels),
	}
	gauges := sampled{descriptions: map[string]*prometheus.Desc{}, collect: collect}
	for _, m := range []Metric{
		MetricAttachableInUse, MetricAttachTotal, MetricDetachesWaiting, MetricOldestDetach, MetricAttachConflicts,
	} {
		gauges.descriptions[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	registry.MustRegister(a.waited, a.operations, gauges)
	return a
}

// Waited records how long a node waited for a volume.
func (a *Attaching) Waited(driver string, took time.Duration) {
	if a != nil {
		a.waited.WithLabelValues(driver).Observe(took.Seconds())
	}
}

// Operation is an attach or detach that has ended.
type Operation struct {
	Name     string // volume_attach or volume_detach
	Driver   string
	Migrated bool // of a volume of an in-tree plugin
	Failed   bool
}

// Ended records the duration of an operation that the attacher has ended.
func (a *Attaching) Ended(o Operation, took time.Duration) {
	if a == nil {
		return
	}
	migrated, status := "false", "success"
	if o.Migrated {
		migrated = "true"
	}
	if o.Failed {
		status = "fail-unknown"
	}
	a.operations.WithLabelValues(migrated, o.Name, status, Plugin(o.Driver)).Observe(took.Seconds())
}

// Plugin returns the name of a CSI driver in upstream's labels.
func Plugin(driver string) string { return "kubernetes.io/csi:" + driver }

// sampled are gauges whose values are computed at each scrape.
type sampled struct {
	descriptions map[string]*prometheus.Desc
	collect      func(Emit)
}

// Describe implements prometheus.Collector.
func (s sampled) Describe(out chan<- *prometheus.Desc) {
	for _, d := range s.descriptions {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (s sampled) Collect(out chan<- prometheus.Metric) {
	s.collect(func(name string, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(s.descriptions[name], prometheus.GaugeValue, value, labels...)
	})
}
