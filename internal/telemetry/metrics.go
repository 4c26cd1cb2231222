package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric describes one metric, for its registration and for the reference.
type Metric struct {
	Name   string
	Kind   string // counter, gauge or histogram
	Labels []string
	Help   string
}

// Metrics that upstream does not have.
var (
	MetricDecisions = Metric{
		"purser_decisions_total", "counter",
		[]string{"controller", "reason"},
		"Decisions of the controllers, by controller and reason.",
	}
	MetricInFlight = Metric{
		"purser_csi_calls_in_flight", "gauge",
		[]string{"method"},
		"Calls to the CSI driver that are in flight.",
	}
	MetricCallLimit = Metric{
		"purser_csi_calls_limit", "gauge",
		[]string{"method"},
		"Calls to the CSI driver that may be in flight now; below the number of worker threads while the driver " +
			"is overloaded.",
	}
	MetricUncertain = Metric{
		"purser_uncertain_volumes", "gauge", nil,
		"CreateVolume requests whose outcome is not known yet.",
	}
	MetricBacklog = Metric{
		"purser_backlog_objects", "gauge",
		[]string{"controller"},
		"Objects from before the start of the process that wait for a write which no one waits for, such as the " +
			"first condition Unused of a claim. At most 50 of them a second are written, and 5 while there is " +
			"other work.",
	}
)

// Upstream are the metrics whose names and labels are contracts; libraries register them (ME-4,
// ME-6, ME-7).
var Upstream = []Metric{
	{
		"csi_sidecar_operations_seconds", "histogram",
		[]string{"driver_name", "method_name", "grpc_status_code"},
		"Duration of calls to the CSI driver, by method and gRPC code. For a driver that replaced an in-tree " +
			"plugin there is also the label migrated: true for calls about volumes of the plugin.",
	},
	{
		"workqueue_adds_total", "counter",
		[]string{"controller", "name"},
		"Keys added to a work queue. The queues of the provisioner are claims and volumes; those of the controllers " +
			"are binder, pvcprotection, pvcprotection_namespaces, pvprotection, vacprotection, volume_expand and " +
			"ephemeral_volume. The other workqueue_ metrics have the same labels, and workqueue_depth has priority " +
			"too, which is always empty.",
	},
	{"leader_election_master_status", "gauge", []string{"name"}, "1 on the leader, 0 on the others."},
	MetricSlowPath, MetricForcedDetaches, MetricAttachableInUse, MetricAttachTotal, MetricStorageOperation,
	metricProvisioned, metricProvisionFailed, metricProvisionDuration,
	metricDeleted, metricDeleteFailed, metricDeleteDuration,
	metricCapacityGoal, metricCapacityCurrent, metricCapacityObsolete,
	metricSnapshotOperation, metricSnapshotInFlight,
	MetricDataSources,
	MetricHealthProbes, MetricHealthDuration, MetricHealthStatus, MetricHealthDropped, MetricHealthUnknown,
	metricMetadata,
	MetricPopulatorSeconds, MetricPopulatorInFlight,
}

// MetricSlowPath is registered by the libraries that upstream uses, but not by those that Purser
// uses (ME-7).
var MetricSlowPath = Metric{
	"leader_election_slowpath_total", "counter",
	[]string{"name"},
	"Renewals of the lease that had to read it first.",
}

// MetricEventsDropped should stay 0.
var MetricEventsDropped = Metric{
	"purser_events_dropped_total", "counter", nil,
	"Kubernetes events that were not written, because the queue was full or the API server refused them.",
}

// MetricThrottled is registered only with --kube-api-qps.
var MetricThrottled = Metric{
	"purser_api_throttled_seconds_total", "counter", nil,
	"Time that requests to the API server have waited for --kube-api-qps.",
}

// MetricOrphans is registered only with --orphan-audit-interval.
var MetricOrphans = Metric{
	"purser_orphan_volumes", "gauge", nil,
	"Volumes that the driver lists and no PersistentVolume names, with --orphan-audit-interval.",
}

// Ours lists the metrics that this package registers.
func Ours() []Metric {
	return []Metric{
		MetricDecisions,
		MetricInFlight,
		MetricCallLimit,
		MetricUncertain,
		MetricBacklog,
		MetricJournalBytes,
		MetricOldest,
		MetricEventsDropped,
		MetricThrottled,
		MetricOrphans,
		MetricForeignBinders,
		MetricServed,
		MetricServing,
		MetricRegistered,
		MetricVolumeHealth,
		MetricPoolSize, MetricPoolFree, MetricPoolFreeInodes,
		MetricPoolReserve, MetricPoolPromised, MetricPoolPromisable,
		MetricVolumeAllocated,
		MetricCapacityOldest,
		MetricCapacityFailing,
		MetricAttachWait, MetricDetachesWaiting, MetricOldestDetach, MetricAttachConflicts,
		MetricPopulatedBytes,
	}
}

// NewCounter registers a counter, or returns the one that another role of the process has
// registered.
func NewCounter(registry prometheus.Registerer, m Metric) *prometheus.CounterVec {
	return registered(registry, prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels))
}

// Metrics are common to all controllers.
type Metrics struct {
	Decisions *prometheus.CounterVec
	InFlight  *prometheus.GaugeVec
	CallLimit *prometheus.GaugeVec
}

// NewMetrics registers the metrics. uncertain returns the number of CreateVolume requests whose
// outcome is not known.
func NewMetrics(registry prometheus.Registerer, uncertain func() int) *Metrics {
	m := &Metrics{
		Decisions: NewCounter(registry, MetricDecisions),
		InFlight:  NewGauge(registry, MetricInFlight),
		CallLimit: NewGauge(registry, MetricCallLimit),
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: MetricUncertain.Name, Help: MetricUncertain.Help,
	}, func() float64 { return float64(uncertain()) }))
	return m
}

// NewGauge registers a gauge, or returns the one that another role of the process has registered.
func NewGauge(registry prometheus.Registerer, m Metric) *prometheus.GaugeVec {
	return registered(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels))
}

// registered registers a metric, or returns the one that is registered already.
func registered[T prometheus.Collector](registry prometheus.Registerer, metric T) T {
	err := registry.Register(metric)
	if have, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if metric, ok = have.ExistingCollector.(T); ok {
			return metric
		}
	}
	if err != nil {
		panic(err) // two metrics of one name
	}
	return metric
}

// MetricForcedDetaches is upstream's; its name has the subsystem twice (volume-controllers 4.12).
var MetricForcedDetaches = Metric{
	"attach_detach_controller_attachdetach_controller_forced_detaches", "counter",
	[]string{"reason"},
	"Volumes that were detached although the node reported them in use, by timeout or out-of-service.",
}
