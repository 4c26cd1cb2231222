package kube

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// EndedObjects is a set of uids of objects that this process knows to be deleted while its cache
// may still have them. The caller removes a uid when the watch delivers the deletion. If the
// deletion was delivered before the uid was added, the uid expires after [keepEnded]. The zero
// value is empty. It is safe for concurrent use.
type EndedObjects struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
	swept time.Time
}

// keepEnded is longer than any delay of a watch.
const keepEnded = 10 * time.Minute

// Add adds an object.
func (e *EndedObjects) Add(uid types.UID, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.since == nil {
		e.since, e.swept = map[types.UID]time.Time{}, now
	}
	e.since[uid] = now
	if now.Sub(e.swept) < keepEnded {
		return
	}
	for uid, since := range e.since {
		if now.Sub(since) > keepEnded {
			delete(e.since, uid)
		}
	}
	e.swept = now
}

// Has reports whether the object is in the set.
func (e *EndedObjects) Has(uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.since[uid]
	return ok
}

func (e *EndedObjects) isEmpty() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.since) == 0
}

// Forget removes an object, for instance when the watch delivers its deletion.
func (e *EndedObjects) Forget(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.since, uid)
}
