package inflight

import (
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// Table holds the running operations by the key of their object.
type Table struct {
	now     func() time.Time
	mu      sync.Mutex
	running map[string]operation
}

type operation struct {
	name  string
	since time.Time
}

// NewTable makes an empty table that reads the time from now.
func NewTable(now func() time.Time) *Table {
	return &Table{now: now, running: map[string]operation{}}
}

// Start claims every key for the named operation, or none: then the error is
// of kind fault.Busy. The keys are claimed in one step, so two operations
// with the same keys in another order cannot block each other. The caller
// must call release exactly once when the operation is over.
func (t *Table) Start(name string, keys ...string) (release func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for _, key := range keys {
		if other, busy := t.running[key]; busy {
			return nil, fault.Busy.Errorf("%s for %q has been running for %s; %s has to wait until it is done, try again",
				other.name, key, now.Sub(other.since).Round(time.Millisecond), name)
		}
	}
	for _, key := range keys {
		t.running[key] = operation{name: name, since: now}
	}
	return func() { t.finish(keys) }, nil
}

func (t *Table) finish(keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		delete(t.running, key)
	}
}
