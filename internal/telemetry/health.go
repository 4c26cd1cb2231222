package telemetry

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of the health of volumes. All but the last have upstream's names and labels (HM-48).
var (
	MetricHealthProbes = Metric{
		"csi_volume_health_probe_total", "counter",
		[]string{"method", "result"},
		"Calls to the CSI driver for the health of volumes, by method and result: success or error.",
	}
	MetricHealthDuration = Metric{
		"csi_volume_health_probe_duration_seconds", "histogram",
		[]string{"method"},
		"Duration of calls to the CSI driver for the health of volumes.",
	}
	MetricHealthStatus = Metric{
		"csi_controller_volume_health_status", "gauge",
		[]string{"namespace", "persistentvolumeclaim", "status"},
		"1 for each status that is shown on the claim of a volume with problems: Degraded, Inaccessible or " +
			"DataLoss. There is no series about a healthy volume.",
	}
	MetricHealthDropped = Metric{
		"csi_volume_health_status_writes_dropped_total", "counter", nil,
		"Writes of status.healthStatus of a claim that the API server dropped, since its feature gate " +
			"CSIVolumeHealth is off.",
	}
	MetricHealthUnknown = Metric{
		"csi_volume_health_unknown_condition_total", "counter",
		[]string{"status"},
		"Conditions in answers of the CSI driver with a status that this version does not know, by its number. " +
			"From the 17th number on: other.",
	}
	// MetricVolumeHealth is ours, for alerts.
	MetricVolumeHealth = Metric{
		"purser_volume_health_volumes", "gauge",
		[]string{"driver", "class", "status"},
		"Bound volumes of the driver by class and worst status: Healthy, Degraded, Inaccessible, DataLoss, or " +
			"Unknown as long as the driver has not said.",
	}
)

// The statuses of [MetricVolumeHealth] that are no statuses of Kubernetes.
const (
	VolumeIsHealthy = "Healthy"
	VolumeIsUnknown = "Unknown"
)

// ClassHealth is a status of volumes of one class.
type ClassHealth struct{ Class, Status string }

// ClaimHealth is a status of the volume of one claim.
type ClaimHealth struct{ Namespace, Claim, Status string }

// VolumeHealthState has the values of the gauges at one scrape.
type VolumeHealthState struct {
	Driver  string
	Volumes map[ClassHealth]int
	Claims  []ClaimHealth
}

// VolumeHealth records the checks of the health of volumes. A nil value records nothing.
type VolumeHealth struct {
	registry prometheus.Registerer
	probes   *prometheus.CounterVec
	took     *prometheus.HistogramVec
	dropped  *prometheus.CounterVec
	unknown  *prometheus.CounterVec

	mu      sync.Mutex
	numbers map[int32]bool // that have a series of unknown
}

// mostNumbers bounds the series of [MetricHealthUnknown], whose label is a number of the driver.
const mostNumbers = 16

// NewVolumeHealth registers the counters.
func NewVolumeHealth(registry prometheus.Registerer) *VolumeHealth {
	return &VolumeHealth{
		registry: registry, probes: NewCounter(registry, MetricHealthProbes),
		took: registered(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: MetricHealthDuration.Name, Help: MetricHealthDuration.Help,
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 30},
		}, MetricHealthDuration.Labels)),
		dropped: NewCounter(registry, MetricHealthDropped), unknown: NewCounter(registry, MetricHealthUnknown),
		numbers: map[int32]bool{},
	}
}

// Collect registers the gauges. state is called at each scrape.
func (h *VolumeHealth) Collect(state func() VolumeHealthState) {
	if h == nil {
		return
	}
	gauges := sampled{descriptions: map[string]*prometheus.Desc{}, collect: func(emit Emit) {
		now := state()
		for of, number := range now.Volumes {
			emit(MetricVolumeHealth.Name, float64(number), now.Driver, of.Class, of.Status)
		}
		for _, claim := range now.Claims {
			emit(MetricHealthStatus.Name, 1, claim.Namespace, claim.Claim, claim.Status)
		}
	}}
	for _, m := range []Metric{MetricVolumeHealth, MetricHealthStatus} {
		gauges.descriptions[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	h.registry.MustRegister(gauges)
}

// Probed records a call to the driver.
func (h *VolumeHealth) Probed(method string, failed bool, took time.Duration) {
	if h == nil {
		return
	}
	result := "success"
	if failed {
		result = "error"
	}
	h.probes.WithLabelValues(method, result).Inc()
	h.took.WithLabelValues(method).Observe(took.Seconds())
}

// Dropped records a write that the API server dropped.
func (h *VolumeHealth) Dropped() {
	if h != nil {
		h.dropped.WithLabelValues().Inc()
	}
}

// Unknown records the statuses of an answer that this version does not know.
func (h *VolumeHealth) Unknown(statuses []int32) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, status := range statuses {
		label := "other"
		if h.numbers[status] || len(h.numbers) < mostNumbers {
			h.numbers[status], label = true, strconv.Itoa(int(status))
		}
		h.unknown.WithLabelValues(label).Inc()
	}
}
