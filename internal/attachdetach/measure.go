package attachdetach

import (
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// measures are what the metrics of attaching are made from: the last decision about each volume, and
// when waits and operations began. It is safe for concurrent use.
type measures struct {
	out *telemetry.Attaching

	mu      sync.Mutex
	last    map[Key]attachment.Measured
	awaited map[Key]map[string]time.Time // since when a node needs the volume and does not list it
	begun   map[types.UID]operation      // that the attacher has not answered yet
}

// operation is one attach or detach.
type operation struct {
	what   telemetry.Operation
	since  time.Time
	failed string // the last error that was counted
}

func newMeasures() *measures {
	return &measures{
		last: map[Key]attachment.Measured{}, awaited: map[Key]map[string]time.Time{}, begun: map[types.UID]operation{},
	}
}

// decided takes in a decision.
func (m *measures) decided(s attachment.Snapshot, measured attachment.Measured, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if measured.IsEmpty() {
		delete(m.last, s.Key)
	} else {
		m.last[s.Key] = measured
	}
	keepSince(m.awaited, s.Key, measured.Awaited, now)
	for _, va := range s.Attachments {
		m.failed(va, now)
	}
}

// keepSince notes for the nodes of a key since when each is among them.
func keepSince(all map[Key]map[string]time.Time, key Key, nodes []string, now time.Time) {
	before, since := all[key], map[string]time.Time{}
	for _, node := range nodes {
		first, noticed := before[node]
		if !noticed {
			first = now
		}
		since[node] = first
	}
	if len(since) == 0 {
		delete(all, key)
	} else {
		all[key] = since
	}
}

// failed times an operation that the attacher has answered with an error, once per error. The caller
// holds mu.
func (m *measures) failed(va *storagev1.VolumeAttachment, now time.Time) {
	failure := va.Status.AttachError
	if va.DeletionTimestamp != nil {
		failure = va.Status.DetachError
	}
	one, begun := m.begun[va.UID]
	if !begun || failure == nil || failure.Message == one.failed {
		return
	}
	ended := one.what
	ended.Failed = true
	m.out.Ended(ended, now.Sub(one.since))
	one.failed = failure.Message
	m.begun[va.UID] = one
}

// began notes that a VolumeAttachment was created, or deleted.
func (m *measures) began(va *storagev1.VolumeAttachment, name string, migrated bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	what := telemetry.Operation{Name: name, Driver: va.Spec.Attacher, Migrated: migrated}
	m.begun[va.UID] = operation{what: what, since: now}
}

const (
	operationAttach = "volume_attach"
	operationDetach = "volume_detach"
)

// ended times an operation with a VolumeAttachment that has come to its end. One of another kind is
// dropped: it was overtaken.
func (m *measures) ended(uid types.UID, name string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one, begun := m.begun[uid]
	if !begun {
		return
	}
	delete(m.begun, uid)
	if one.what.Name == name {
		m.out.Ended(one.what, now.Sub(one.since))
	}
}

// listed times how long a node has waited for a volume that it lists now.
func (m *measures) listed(key Key, node string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, awaited := m.awaited[key][node]
	if !awaited {
		return
	}
	m.out.Waited(key.Driver, now.Sub(since))
	if delete(m.awaited[key], node); len(m.awaited[key]) == 0 {
		delete(m.awaited, key)
	}
}

// gauge is one gauge by name, with its labels.
type gauge struct{ name, first, second string }

// collect gives the gauges.
func (m *measures) collect(now time.Time, emit telemetry.Emit) {
	values := map[gauge]float64{}
	m.mu.Lock()
	for key, one := range m.last {
		add(values, key.Driver, one, now)
	}
	m.mu.Unlock()
	for g, value := range values {
		labels := []string{g.first}
		if g.second != "" {
			labels = append(labels, g.second)
		}
		emit(g.name, value, labels...)
	}
}

// add adds what is to be said of one volume.
func add(values map[gauge]float64, driver string, one attachment.Measured, now time.Time) {
	plugin := telemetry.Plugin(driver)
	for node, pods := range one.InUse {
		values[gauge{telemetry.MetricAttachableInUse.Name, node, plugin}] += float64(pods)
	}
	values[gauge{telemetry.MetricAttachTotal.Name, plugin, "desired_state_of_world"}] += float64(one.Desired)
	values[gauge{telemetry.MetricAttachTotal.Name, plugin, "actual_state_of_world"}] += float64(one.Actual)
	values[gauge{telemetry.MetricAttachConflicts.Name, driver, ""}] += float64(one.Conflicts)
	for _, w := range one.Waiting {
		reason := string(w.Reason)
		values[gauge{telemetry.MetricDetachesWaiting.Name, driver, reason}]++
		oldest := gauge{telemetry.MetricOldestDetach.Name, driver, reason}
		values[oldest] = max(values[oldest], now.Sub(w.Since).Seconds())
	}
}
