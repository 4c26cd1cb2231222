package health

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	health "github.com/purser-csi/purser/internal/health/rules"
	"github.com/purser-csi/purser/internal/objects"
)

// Memory is what the process knows of the volumes of its driver. It is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	volumes map[types.UID]*volume
	queue   queue // nil before the process leads
	list    list
	refused time.Time       // see [health.Snapshot.Refused]
	failing map[string]bool // by method: the last call failed
}

// volume is one bound volume of the driver.
type volume struct {
	name, handle string
	class        string
	claim        types.NamespacedName
	known        health.Known
	isStored     bool // its claim has conditions
}

// list is the last complete list of volumes with problems.
type list struct {
	at      time.Time
	reports map[string]health.Report // by handle
	confirm time.Duration
}

func newMemory() *Memory {
	return &Memory{volumes: map[types.UID]*volume{}, failing: map[string]bool{}}
}

// lead takes the queue, and enqueues what the last list concerns; nil when the process does not lead any
// more.
func (m *Memory) lead(q queue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = q
	m.enqueue()
}

// track begins to watch a bound volume, and reports whether it is new or has another claim.
func (m *Memory) track(pv *corev1.PersistentVolume, now time.Time) (isNew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var claim types.NamespacedName
	if ref := pv.Spec.ClaimRef; ref != nil {
		claim = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	have := m.volumes[pv.UID]
	if have != nil && have.claim == claim && have.handle == pv.Spec.CSI.VolumeHandle {
		return false
	}
	m.volumes[pv.UID] = &volume{
		name: pv.Name, handle: pv.Spec.CSI.VolumeHandle, class: objects.VolumeClass(pv), claim: claim,
		known: health.Known{Since: now},
	}
	return true
}

func (m *Memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.volumes, uid)
}

// change changes what is known of a volume, and returns it.
func (m *Memory) change(uid types.UID, change func(*health.Known)) health.Known {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.volumes[uid]
	if v == nil { // it is not bound any more
		v = &volume{}
	}
	change(&v.known)
	return v.known
}

// setStored notes whether the claim of a volume has conditions.
func (m *Memory) setStored(uid types.UID, isStored bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.volumes[uid]; v != nil {
		v.isStored = isStored
	}
}

// setRefused notes whether the API server stored the field at the last attempt, and reports whether that is
// news.
func (m *Memory) setRefused(at time.Time) (isNews bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	isNews = m.refused.IsZero() != at.IsZero()
	m.refused = at
	return isNews
}

// setFailing notes whether the last call of an RPC failed, and reports whether that is news.
func (m *Memory) setFailing(method string, fails bool) (isNews bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	isNews = m.failing[method] != fails
	m.failing[method] = fails
	return isNews
}

// setList takes a complete list, and enqueues the volumes that it concerns.
func (m *Memory) setList(at time.Time, reports map[string]health.Report, longest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = list{at: at, reports: reports}
	left := 0
	for _, v := range m.volumes {
		if _, is := reports[v.handle]; !is && v.isAbnormal() {
			left++
		}
	}
	if confirm := health.Spread(left); left > health.CallsPerSecond {
		m.list.confirm = min(confirm, longest)
	}
	m.enqueue()
}

// enqueue enqueues the volumes that are on the list, or were abnormal before it. The caller holds mu.
func (m *Memory) enqueue() {
	if m.queue == nil || m.list.at.IsZero() {
		return
	}
	for _, v := range m.volumes {
		if _, is := m.list.reports[v.handle]; is || v.isAbnormal() {
			m.queue.Add(v.name)
		}
	}
}

func (v *volume) isAbnormal() bool { return v.isStored || v.known.IsAbnormal() }

// fill adds to a snapshot what is known of its volume.
func (m *Memory) fill(s *health.Snapshot, every time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Period, s.Refused = health.Period(len(m.volumes), every), m.refused
	s.List = health.List{At: m.list.at, Confirm: m.list.confirm}
	v := m.volumes[s.Volume.UID]
	if v == nil {
		return
	}
	s.Known = v.known
	if report, is := m.list.reports[v.handle]; is {
		s.List.Report = &report
	}
}
