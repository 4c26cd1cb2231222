package attachdetach

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Memory is what this process knows of attachments beyond the API objects. The zero value is that of a
// fresh process. It is safe for concurrent use.
type Memory struct {
	confirmed sync.Map // uids of [attachment.Snapshot.Confirmed]

	mu       sync.Mutex
	queue    queue                        // nil before the start
	unwanted map[Key]map[string]time.Time // [attachment.Snapshot.Unwanted]
	orphans  map[types.UID]time.Time      // [attachment.Snapshot.UnusedSince]
}

func (m *Memory) lead(q queue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = q
}

func (m *Memory) enqueue(key Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queue != nil {
		m.queue.Add(key)
	}
}

func (m *Memory) noteUnwanted(key Key, nodes []string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unwanted == nil {
		m.unwanted = map[Key]map[string]time.Time{}
	}
	keepSince(m.unwanted, key, nodes, now)
}

func (m *Memory) unwantedSince(key Key) map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unwanted[key]
}

func (m *Memory) confirm(uid types.UID, is bool) {
	if is {
		m.confirmed.Store(uid, nil)
		return
	}
	m.confirmed.Delete(uid)
}

func (m *Memory) isConfirmed(uid types.UID) bool {
	_, is := m.confirmed.Load(uid)
	return is
}

// audited replaces the VolumeAttachments that the audit has found without a volume.
func (m *Memory) audited(found []types.UID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.orphans
	m.orphans = map[types.UID]time.Time{}
	for _, uid := range found {
		m.orphans[uid] = now
		if since, known := before[uid]; known {
			m.orphans[uid] = since
		}
	}
}

func (m *Memory) orphanSince(uid types.UID) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.orphans[uid]
}
