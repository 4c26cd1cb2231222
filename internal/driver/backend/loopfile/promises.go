package loopfile

import (
	"sync"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// Disk is how full the filesystem is.
type Disk struct {
	Free, Used int64
}

// Entry is one volume or snapshot.
type Entry struct {
	// Promised is how many bytes it may take at most.
	Promised int64
	// Allocated is how many bytes it takes now.
	Allocated int64
}

// Promises is safe for use by several goroutines.
type Promises struct {
	mu      sync.Mutex
	entries map[string]Entry
	total   Entry
}

// Set enters or replaces an entry.
func (l *Promises) Set(name string, e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(name, e)
}

func (l *Promises) set(name string, e Entry) {
	if l.entries == nil {
		l.entries = map[string]Entry{}
	}
	old := l.entries[name]
	l.total.Promised += e.Promised - old.Promised
	l.total.Allocated += e.Allocated - old.Allocated
	l.entries[name] = e
}

// Remove takes an entry out.
func (l *Promises) Remove(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(name, Entry{})
	delete(l.entries, name)
}

// Measured updates the allocated bytes of an entry. An entry that was removed meanwhile is not
// added again.
func (l *Promises) Measured(name string, allocated int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, known := l.entries[name]; known {
		e.Allocated = allocated
		l.set(name, e)
	}
}

// Names lists the entries.
func (l *Promises) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make([]string, 0, len(l.entries))
	for name := range l.entries {
		names = append(names, name)
	}
	return names
}

// Total is how many bytes are promised.
func (l *Promises) Total() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total.Promised
}

// Left is how much can still be promised under an over-commit limit.
func (l *Promises) Left(d Disk, overCommit float64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.left(d, overCommit))
}

// left can be negative: the limit was lowered, or another program fills the disk. Each copy counts
// the space that it shares, but all copies together count at most the space in use.
func (l *Promises) left(d Disk, overCommit float64) int64 {
	ours := min(l.total.Allocated, d.Used)
	return int64(float64(d.Free+ours)*overCommit) - l.total.Promised
}

// Promise raises the promised bytes of name, or refuses with fault.Exhausted.
// A caller that fails afterwards takes it back with Set or Remove.
func (l *Promises) Promise(name string, bytes int64, d Disk, overCommit float64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[name]
	more := bytes - e.Promised
	if left := l.left(d, overCommit); more > left {
		return fault.Exhausted.Errorf(
			"about %s more are needed, and the pool has %s left to promise with the over-commit limit %g; "+
				"delete volumes, enlarge the disk, or raise the limit (--loopfile-over-commit, or overCommit of the "+
				"StorageClass)",
			about(more),
			about(max(0, left)),
			overCommit,
		)
	}
	e.Promised = bytes
	l.set(name, e)
	return nil
}
