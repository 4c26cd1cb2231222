package sim

import (
	"sync"
	"time"
)

// operations is the account of the writes and calls that the processes under test began. Schedules
// name operations by their numbers, and I6 limits them. It is safe for concurrent use; the fields
// are read when the run has ended.
type operations struct {
	mu            sync.Mutex
	times         []time.Time    // when each began; the first operation has the number 1
	writes        int            // requests that change something in the API server
	budgeted      int            // writes, those of the journal left out
	callNumbers   []int          // the operations that are calls to the driver
	calls         map[string]int // how many calls to the driver, by method and volume
	refused       []string       // conflicts and similar errors that the API server returned
	needlessReads []string       // reads of objects that the process knew
}

func newOperations() operations { return operations{calls: map[string]int{}} }

// add counts a write or a call, and returns its number.
func (a *operations) add(o op) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = append(a.times, time.Now())
	n := len(a.times)
	if o.call {
		a.calls[o.text]++
		a.callNumbers = append(a.callNumbers, n)
		return n
	}
	a.writes++
	if !o.journal {
		a.budgeted++
	}
	return n
}

// count returns how many operations began.
func (a *operations) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.times)
}

// numberOfWrites returns how many writes began.
func (a *operations) numberOfWrites() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes
}

// began returns when an operation began; the zero time if it did not, and for the number 0.
func (a *operations) began(n int) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n < 1 || n > len(a.times) {
		return time.Time{}
	}
	return a.times[n-1]
}

// addRefused records an error that the API server returned.
func (a *operations) addRefused(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = append(a.refused, text)
}

// addNeedlessRead records a read whose result the process knew.
func (a *operations) addNeedlessRead(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.needlessReads = append(a.needlessReads, text)
}
