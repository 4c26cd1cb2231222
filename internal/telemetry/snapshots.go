package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// The metrics of upstream's snapshot-controller (SN-M1).
var (
	metricSnapshotOperation = Metric{
		"snapshot_controller_operation_total_seconds", "histogram",
		[]string{"driver_name", "operation_name", "snapshot_type", "operation_status"},
		"Time until a VolumeSnapshot was taken, was ready or was deleted, as the snapshot-controller saw it. The " +
			"operations are CreateSnapshot, CreateSnapshotAndReady and DeleteSnapshot, and CreateGroupSnapshot, " +
			"CreateGroupSnapshotAndReady and DeleteGroupSnapshot.",
	}
	metricSnapshotInFlight = Metric{
		"snapshot_controller_operations_in_flight", "gauge", nil,
		"Operations of the snapshot-controller that have begun and not ended.",
	}
)

// snapshotBuckets are upstream's.
var snapshotBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300, 600}

// unknownSnapshotDriver is the label of an operation whose driver was never known.
const unknownSnapshotDriver = "unknown"

// SnapshotState is the progress of a VolumeSnapshot or VolumeGroupSnapshot that a watch delivers.
type SnapshotState struct {
	UID            types.UID
	Group          bool
	PreProvisioned bool // the snapshot existed before its object
	Taken          bool // the status has a creation time
	Ready          bool
	Deleting       bool // the deletion timestamp is set
	Gone           bool
	// Driver returns the name of the driver; empty while it is not known. It is called when an
	// operation begins or ends.
	Driver func() string
}

// SnapshotOperations records the operations of the snapshot-controller. An operation begins when
// this process first sees its object. It is safe for concurrent use. A nil receiver records
// nothing.
type SnapshotOperations struct {
	took     *prometheus.HistogramVec
	inFlight prometheus.Gauge

	mu    sync.Mutex
	begun map[snapshotOperation]beginning
}

type snapshotOperation struct {
	name string
	uid  types.UID
}

type beginning struct {
	at     time.Time
	driver string
}

// NewSnapshotOperations registers the metrics.
func NewSnapshotOperations(registry prometheus.Registerer) *SnapshotOperations {
	m := metricSnapshotOperation
	return &SnapshotOperations{
		took: registered(registry, prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: snapshotBuckets}, m.Labels)),
		inFlight: NewGauge(registry, metricSnapshotInFlight).WithLabelValues(),
		begun:    map[snapshotOperation]beginning{},
	}
}

// Observe begins and ends operations according to a state. If the object is deleted before an
// operation succeeded, the operation ends with the status cancel.
func (o *SnapshotOperations) Observe(now time.Time, s SnapshotState) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	noun := "Snapshot"
	if s.Group {
		noun = "GroupSnapshot"
	}
	create, ready, remove := "Create"+noun, "Create"+noun+"AndReady", "Delete"+noun
	switch {
	case s.Gone:
		o.end(now, remove, s, "success")
		o.end(now, create, s, "cancel")
		o.end(now, ready, s, "cancel")
	case s.Deleting:
		o.begin(now, remove, s)
	default:
		if s.Taken {
			o.end(now, create, s, "success")
		} else if !s.PreProvisioned {
			o.begin(now, create, s)
		}
		if s.Ready {
			o.end(now, ready, s, "success")
		} else {
			o.begin(now, ready, s)
		}
	}
	o.inFlight.Set(float64(len(o.begun)))
}

func (o *SnapshotOperations) begin(now time.Time, name string, s SnapshotState) {
	if _, before := o.begun[snapshotOperation{name, s.UID}]; !before {
		o.begun[snapshotOperation{name, s.UID}] = beginning{now, s.Driver()}
	}
}

func (o *SnapshotOperations) end(now time.Time, name string, s SnapshotState, status string) {
	from, begun := o.begun[snapshotOperation{name, s.UID}]
	if !begun {
		return
	}
	delete(o.begun, snapshotOperation{name, s.UID})
	driver := s.Driver()
	if driver == "" {
		driver = from.driver
	}
	if driver == "" {
		driver = unknownSnapshotDriver
	}
	kind := "dynamic"
	if s.PreProvisioned {
		kind = "pre-provisioned"
	}
	o.took.WithLabelValues(driver, name, kind, status).Observe(now.Sub(from.at).Seconds())
}
