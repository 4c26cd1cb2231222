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

// mostPending bounds the changes that wait to be put into the index.
const mostPending = 1000

// Live keeps in memory what a watch delivers, for the pages of a running program: as a record does,
// but without a file. It is safe for several goroutines.
type Live struct {
	lock  sync.Mutex // of the index; is taken before mu
	index *life.Index
	later int // changes in the index that are not of the first list

	mu      sync.Mutex
	pending []life.Change // which the index does not have yet
	begin   time.Time     // from when on every change is known
	unread  map[explain.Kind]string
	calls   []life.Call
	notes   []string
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
	l.pending = append(l.pending, c)
	isFull := len(l.pending) >= mostPending
	l.mu.Unlock()
	if isFull {
		l.lock.Lock()
		defer l.lock.Unlock()
		l.take()
	}
}

// take puts the pending changes into the index. The caller holds its lock.
func (l *Live) take() {
	l.mu.Lock()
	pending := l.pending
	l.pending = nil
	l.mu.Unlock()
	if l.index == nil {
		l.index = life.NewIndex(nil)
	}
	pending = l.withoutRenewals(pending)
	for _, c := range pending {
		if !c.Existed {
			l.later++
		}
	}
	extend(l.index, pending)
	for l.later > mostVersions {
		l.forget()
	}
}

// leaseGap is from when on the time between two renewals of a Lease is worth keeping.
const leaseGap = 30 * time.Second

// withoutRenewals puts each renewal of a Lease in the place of the version before: a cluster has
// thousands of renewals in a minute, and what they say is that the holder lived meanwhile.
func (l *Live) withoutRenewals(changes []life.Change) (others []life.Change) {
	newest := map[explain.Ref]int{} // among the others
	for _, c := range changes {
		lease, is := c.Object.(*coordinationv1.Lease)
		if !is {
			others = append(others, c)
			continue
		}
		ref := explain.Ref{Kind: c.Kind, Namespace: lease.Namespace, Name: lease.Name}
		at, isAmong := newest[ref]
		known := l.index.Last(ref)
		switch {
		case isAmong && onlyRenews(others[at], c):
			others[at].Object = renewed(others[at], lease)
		case !isAmong && known >= 0 && onlyRenews(l.index.Changes()[known], c):
			l.index.Replace(known, renewed(l.index.Changes()[known], lease))
		default:
			newest[ref] = len(others)
			others = append(others, c)
		}
	}
	return others
}

// renewed returns a renewed Lease under the version by which the change before is ordered.
func renewed(before life.Change, lease *coordinationv1.Lease) *coordinationv1.Lease {
	kept := *lease
	kept.ResourceVersion = before.Object.GetResourceVersion()
	return &kept
}

// onlyRenews reports whether a change of a Lease does no more than to renew it in time.
func onlyRenews(before, after life.Change) bool {
	was, is := before.Object.(*coordinationv1.Lease)
	now, both := after.Object.(*coordinationv1.Lease)
	return is && both && !before.Deleted && !after.Deleted && isRenewalOf(was, now)
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
// version of that time becomes its first. The caller holds the lock of the index.
func (l *Live) forget() {
	half, passed := mostVersions/2, 0
	changes := l.index.Changes()
	cut := slices.IndexFunc(changes, func(c life.Change) bool {
		if !c.Existed {
			passed++
		}
		return passed > half
	})
	begin := changes[cut].At
	last := map[key]int{}
	for i, c := range changes[:cut] {
		last[keyOf(c)] = i
	}
	var kept []life.Change
	for i, c := range changes[:cut] {
		if last[keyOf(c)] == i && !c.Deleted {
			c.Existed, c.At, c.By = true, begin, nil
			kept = append(kept, c)
		}
	}
	l.index.Revise(0, append(kept, changes[cut:]...))
	l.later -= half
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin = begin
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

// Record returns what is known at a time. Records of later times have the same index, which holds what
// is known then.
func (l *Live) Record(now time.Time) *Record {
	l.lock.Lock()
	l.take()
	l.lock.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	r := newRecord()
	r.index, r.lock = l.index, &l.lock
	r.calls, r.Notes = slices.Clip(l.calls), slices.Clone(l.notes)
	r.begin, r.end = l.begin, now
	maps.Copy(r.unread, l.unread)
	return r
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
