package record

import (
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

// mostVersions bounds the versions of objects that a [Live] keeps besides the first and the last of
// each object.
const mostVersions = 20_000

// mostCalls bounds the calls of roles that a Live keeps.
const mostCalls = 20_000

// Live keeps in memory what a watch delivers, for the pages of a running program: as a record does,
// but without a file. It is safe for several goroutines.
type Live struct {
	mu      sync.Mutex
	changes []life.Change
	begin   time.Time // from when on every change is known
	unread  map[explain.Kind]string
	calls   []life.Call
	notes   []string
	later   int         // changes that are not of the first list
	leases  map[key]int // the last change of each Lease
}

// Object takes a version of an object. The objects must not be changed.
func (l *Live) Object(seen inventory.Seen, now time.Time) {
	c := life.Change{
		At: now, Existed: seen.Initial, Kind: inventory.KindOf(seen.Object), Object: seen.Object, Deleted: seen.Deleted,
	}
	if c.Kind == "" {
		return
	}
	if seen.Before != nil && seen.Before.GetResourceVersion() == seen.Object.GetResourceVersion() && !seen.Deleted {
		return // a list after a broken watch
	}
	if !seen.Initial {
		c.By = writersOf(seen)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed(c) {
		return
	}
	if l.changes = append(l.changes, c); !seen.Initial {
		l.later++
	}
	if l.later > mostVersions {
		l.forget()
	}
}

// leaseGap is from when on the time between two renewals of a Lease is worth keeping.
const leaseGap = 30 * time.Second

// renewed puts a renewal of a Lease in the place of the version before: a cluster has thousands of
// renewals in a minute, and what they say is that the holder lived meanwhile.
func (l *Live) renewed(c life.Change) bool {
	lease, is := c.Object.(*coordinationv1.Lease)
	if !is {
		return false
	}
	k := keyOf(c)
	if i, known := l.leases[k]; known && !c.Deleted {
		before, isLease := l.changes[i].Object.(*coordinationv1.Lease)
		if isLease && !l.changes[i].Deleted && isRenewalOf(before, lease) {
			renewed := *lease
			renewed.ResourceVersion = before.ResourceVersion // by which the changes are ordered
			l.changes[i].Object = &renewed
			return true
		}
	}
	if l.leases == nil {
		l.leases = map[key]int{}
	}
	l.leases[k] = len(l.changes)
	return false
}

func isRenewalOf(before, after *coordinationv1.Lease) bool {
	if before.UID != after.UID || before.Spec.RenewTime == nil || after.Spec.RenewTime == nil ||
		after.Spec.RenewTime.Sub(before.Spec.RenewTime.Time) > leaseGap {
		return false
	}
	return before.Spec.HolderIdentity != nil && after.Spec.HolderIdentity != nil &&
		*before.Spec.HolderIdentity == *after.Spec.HolderIdentity
}

func writersOf(seen inventory.Seen) []string {
	if seen.Deleted {
		return nil
	}
	var before map[string]uint64
	if seen.Before != nil {
		before = managersOf(seen.Before)
	}
	return changed(before, managersOf(seen.Object))
}

// forget removes the older half of the later changes. Of an object that exists then, the last
// version of that time becomes its first.
func (l *Live) forget() {
	half, passed := mostVersions/2, 0
	cut := slices.IndexFunc(l.changes, func(c life.Change) bool {
		if !c.Existed {
			passed++
		}
		return passed > half
	})
	l.begin = l.changes[cut].At
	last := map[key]int{}
	for i, c := range l.changes[:cut] {
		last[keyOf(c)] = i
	}
	var kept []life.Change
	for i, c := range l.changes[:cut] {
		if last[keyOf(c)] == i && !c.Deleted {
			c.Existed, c.At, c.By = true, l.begin, nil
			kept = append(kept, c)
		}
	}
	l.changes = append(kept, l.changes[cut:]...)
	l.later -= half
	l.leases = nil // their places are others now
}

func keyOf(c life.Change) key {
	return key{string(c.Kind), c.Object.GetNamespace(), c.Object.GetName()}
}

// Listed notes that all objects that exist have been taken, but those of the kinds that are unread.
func (l *Live) Listed(unread map[explain.Kind]string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unread, l.begin = unread, now
}

// Call takes a call of a role.
func (l *Live) Call(c life.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
	if len(l.calls) > mostCalls {
		l.calls = slices.Clone(l.calls[mostCalls/2:])
	}
}

// Note takes what could not be recorded. Each text is kept once.
func (l *Live) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.notes) < mostNotes && !slices.Contains(l.notes, text) {
		l.notes = append(l.notes, text)
	}
}

// Record returns what is known at a time.
func (l *Live) Record(now time.Time) *Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := newRecord()
	r.changes, r.calls, r.Notes = slices.Clone(l.changes), slices.Clone(l.calls), slices.Clone(l.notes)
	r.begin, r.end = l.begin, now
	maps.Copy(r.unread, l.unread)
	for _, c := range r.changes {
		if k := keyOf(c); r.objects[k] == nil {
			r.objects[k] = &timeline{}
		}
	}
	r.order()
	return r
}

// HistoryTo is [Record.History] with a cluster that the caller has of its end.
func (r *Record) HistoryTo(final *explain.Cluster) *life.History {
	source := life.Source{
		Changes: r.changes, Begin: r.begin, State: r.stateOf(r.keys()), Calls: r.calls, Final: final,
	}
	if len(r.objects) > r.small {
		source.Narrow = r.narrow
	}
	return life.New(source)
}

// Writer returns a writer that takes the calls and notes of roles.
func (l *Live) Writer() *Writer { return NewWriter(roleLines{l}, "", time.Now) }

// roleLines is the [Output] of that writer.
type roleLines struct{ live *Live }

// Write implements io.Writer.
func (r roleLines) Write(text []byte) (int, error) {
	line, err := decodeLine(text)
	switch {
	case err != nil:
		return 0, err
	case line.Op == Called && line.Call != nil:
		r.live.Call(*line.Call)
	case line.Op == Noted:
		r.live.Note(line.Note)
	}
	return len(text), nil
}

// IsFull implements [Output].
func (roleLines) IsFull(time.Time) bool { return false }

// Rotate implements [Output].
func (roleLines) Rotate(time.Time) error { return nil }

// Listed implements [Output].
func (roleLines) Listed() error { return nil }

// Flush implements [Output].
func (roleLines) Flush() error { return nil }

// Close implements io.Closer.
func (roleLines) Close() error { return nil }
