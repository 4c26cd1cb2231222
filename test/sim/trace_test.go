package sim

import (
	"fmt"
	"sync"
	"time"
)

// trace is the record of a run for its reader: what happened at which time, and which invariants
// were violated. It is safe for concurrent use.
type trace struct {
	began time.Time

	mu         sync.Mutex
	lines      []string
	violations []string
}

// log adds a line with the time since the run began.
func (t *trace) log(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf("%10.4fs ", time.Since(t.began).Seconds())+fmt.Sprintf(format, args...))
}

// violate records that an invariant is violated. The text begins with the ID of the invariant.
func (t *trace) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.log("VIOLATION %s", text)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.violations = append(t.violations, text)
}
