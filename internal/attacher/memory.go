package attacher

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memory is what this process knows of VolumeAttachments beyond the API objects. The zero value is that
// of a fresh process. It is safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	queue queue // nil for a process that does not lead
	// volumes is the queue of the finalizer of PersistentVolumes, likewise.
	volumes queue
	// mismatches are the attachments that the driver lists otherwise than their status says, by uid:
	// false once a call was made since the last comparison. An entry stays until a call succeeds or a
	// comparison finds no difference any more: upstream's is consumed by the first attempt (AT-L7).
	mismatches map[types.UID]bool
}

// lead begins to work on attachments, or ends it for a nil queue.
func (m *Memory) lead(q queue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = q
}

func (m *Memory) leads() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue != nil
}

// enqueue enqueues an attachment from outside of an event handler.
func (m *Memory) enqueue(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queue != nil {
		m.queue.Add(name)
	}
}

// leadVolumes begins to work on the finalizer of PersistentVolumes, or ends it for a nil queue.
func (m *Memory) leadVolumes(q queue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.volumes = q
}

// enqueueVolumes enqueues PersistentVolumes whose VolumeAttachment has ended.
func (m *Memory) enqueueVolumes(names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.volumes == nil {
		return
	}
	for _, name := range names {
		m.volumes.Add(name)
	}
}

func (m *Memory) setMismatch(uid types.UID, differs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !differs {
		delete(m.mismatches, uid)
		return
	}
	if m.mismatches == nil {
		m.mismatches = map[types.UID]bool{}
	}
	m.mismatches[uid] = true
}

// mismatch reports whether an attachment is one of them, and whether it is due without the delay of an
// attempt that failed before the comparison.
func (m *Memory) mismatch(uid types.UID) (differs, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	due, differs = m.mismatches[uid]
	return differs, due
}

// tried notes that a call is made.
func (m *Memory) tried(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, differs := m.mismatches[uid]; differs {
		m.mismatches[uid] = false
	}
}
