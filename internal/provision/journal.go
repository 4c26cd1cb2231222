package provision

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	provision "github.com/purser-csi/purser/internal/provision/rules"
)

// Journal has an entry for each unresolved CreateVolume request.
//
//nolint:interfacebloat // the journal is one component: callers need all of it
type Journal interface {
	// Wait returns when the journal has been taken over.
	Wait(ctx context.Context) error
	// Record returns when the entry is written. Recording the same request again writes nothing.
	Record(ctx context.Context, e intent.Entry) error
	// Hold returns a context for one call for a claim with an entry. It is cancelled before another
	// leader may repeat or undo the call.
	Hold(ctx context.Context, claim types.UID) (bounded context.Context, cancel context.CancelFunc, err error)
	// Resolve removes the entry of a claim, if there is one.
	Resolve(ctx context.Context, claim types.UID) error
	// Flushed returns when no resolved entry is in the journal: a new leader repeats none of them.
	Flushed(ctx context.Context) error
	// Note stores what is known of the volume of a claim's entry.
	Note(claim types.UID, known intent.Known)
	// Discard returns when the handle of a volume of the claim, which is about to be deleted, is
	// written.
	Discard(ctx context.Context, claim types.UID, handle string) error
	// CallsEnd returns when the calls of previous leaders that may create the named volume, which
	// has a PersistentVolume with the claim, must have ended; zero for none.
	CallsEnd(volume string, claim types.UID) time.Time
	// Done says that the run which called the driver for the claim has ended, with or without an
	// outcome.
	Done(claim types.UID)
	// Pending returns the entry of a claim.
	Pending(claim types.UID) (intent.Entry, bool)
	// Entries returns all entries.
	Entries() []intent.Entry
}

// ClaimExists returns a function that reads the claim of a stale entry live.
func ClaimExists(live client.Reader) func(context.Context, intent.Entry) (bool, error) {
	return func(ctx context.Context, e intent.Entry) (bool, error) {
		claim, err := ClaimOf(ctx, live, provision.Key{NamespacedName: e.Claim, UID: e.UID})
		return claim != nil, err
	}
}

// Memory is a journal in process memory, which is what upstream has (C-33).
type Memory struct {
	mu      sync.Mutex
	entries map[types.UID]intent.Entry
}

var _ Journal = (*Memory)(nil)

// NewMemory returns an empty journal.
func NewMemory() *Memory { return &Memory{entries: map[types.UID]intent.Entry{}} }

// Wait implements Journal.
func (m *Memory) Wait(context.Context) error { return nil }

// CallsEnd implements Journal. There is no previous leader's entry.
func (m *Memory) CallsEnd(string, types.UID) time.Time { return time.Time{} }

// Discard implements Journal. No other process reads the entries.
func (m *Memory) Discard(_ context.Context, claim types.UID, handle string) error {
	m.Note(claim, intent.Known{Handle: handle})
	return nil
}

// Done implements Journal.
func (m *Memory) Done(types.UID) {}

// Hold implements Journal. No other process reads the entries.
func (m *Memory) Hold(ctx context.Context, _ types.UID) (context.Context, context.CancelFunc, error) {
	bounded, cancel := context.WithCancel(ctx)
	return bounded, cancel, nil
}

// Entries implements Journal.
func (m *Memory) Entries() []intent.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.entries))
}

// Record implements Journal.
func (m *Memory) Record(_ context.Context, e intent.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	have, ok := m.entries[e.UID]
	switch e = e.Repeated(); {
	case ok && have.IsFor(e.Request):
		e.Replaced = have.Replaced
	case ok:
		e = e.Replacing(have)
	}
	m.entries[e.UID] = e
	return nil
}

// Note implements Journal.
func (m *Memory) Note(claim types.UID, known intent.Known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[claim]; ok {
		e.Known = known
		m.entries[claim] = e
	}
}

// Resolve implements Journal.
func (m *Memory) Resolve(_ context.Context, claim types.UID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, claim)
	return nil
}

// Flushed implements Journal.
func (m *Memory) Flushed(context.Context) error { return nil }

// Pending implements Journal.
func (m *Memory) Pending(claim types.UID) (intent.Entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[claim]
	return e, ok
}

// Len returns the number of entries.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}
