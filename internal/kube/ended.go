package kube

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// EndedObjects remembers by uid what this process knows of the end of objects before its watch shows
// it. An entry goes when the watch shows the end, or after a while: a watch may have shown it before
// the entry was made. The zero value is empty. It is safe for concurrent use.
type EndedObjects struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
	swept time.Time
}

// keepEnded is longer than a watch is behind.
const keepEnded = 10 * time.Minute

// Add remembers an object.
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

// Has reports whether the object is remembered.
func (e *EndedObjects) Has(uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.since[uid]
	return ok
}

// Forget drops an object, as when the watch shows its end.
func (e *EndedObjects) Forget(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.since, uid)
}
