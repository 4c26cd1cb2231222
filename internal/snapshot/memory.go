package snapshot

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// memory is what the process knows of contents beyond the API objects. Its zero value is that of a new
// process. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	known map[types.UID]known
}

// known is what the process knows of one content.
type known struct {
	asked time.Time // when the driver last said that the snapshot is not ready
	// removable says that the watch showed the content to become removable. The cache then has all
	// contents that existed at that moment, with their state at it, so that the first attempt needs no
	// live list: of two contents with a handle, the one that became removable later sees that the other
	// one is.
	removable bool
	// callsEnd is when the call of a previous leader, which it had recorded, must have ended.
	callsEnd time.Time
}

func (m *memory) of(uid types.UID) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[uid]
}

func (m *memory) set(uid types.UID, change func(*known)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.known[uid]
	change(&now)
	switch {
	case now == known{}:
		delete(m.known, uid)
	case m.known == nil:
		m.known = map[types.UID]known{uid: now}
	default:
		m.known[uid] = now
	}
}

func (m *memory) forget(uid types.UID) { m.set(uid, func(k *known) { *k = known{} }) }

func (m *memory) becameRemovable(uid types.UID) { m.set(uid, func(k *known) { k.removable = true }) }

// answered notes when the driver was asked about what is not ready, and forgets what is ready or what
// the driver does not know.
func (m *memory) answered(uid types.UID, answer rules.Answer, now time.Time) {
	if !answer.IsPending() {
		now = time.Time{}
	}
	m.set(uid, func(k *known) { k.asked = now })
}
