package provision

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/world"
)

// Journal has an entry for each CreateVolume request whose outcome is not known.
//
//nolint:interfacebloat // one thing with a life of its own: it opens, records, settles, and is asked
type Journal interface {
	// Wait returns when the journal may be used.
	Wait(ctx context.Context) error
	// Record returns when the entry is remembered. Recording the same again changes nothing.
	Record(ctx context.Context, e intent.Entry) error
	// Hold returns a context for one call for a claim with an entry. It is cancelled before another
	// leader may repeat or undo the call.
	Hold(ctx context.Context, claim types.UID) (bounded context.Context, cancel context.CancelFunc, err error)
	// Settle forgets the entry of a claim, if there is one.
	Settle(ctx context.Context, claim types.UID) error
	// Note keeps what is known of the volume of a claim's entry.
	Note(claim types.UID, known intent.Known)
	// Discard returns when the journal says that a volume of the claim is about to be deleted.
	Discard(ctx context.Context, claim types.UID) error
	// CallsEnd is when the calls of previous leaders that may create the named volume must have
	// ended; zero for none.
	CallsEnd(volume string) time.Time
	// Done says that the run which called for the claim has ended, whatever is known of the outcome.
	Done(claim types.UID)
	// Pending is the entry of a claim.
	Pending(claim types.UID) (intent.Entry, bool)
	// Entries are all entries.
	Entries() []intent.Entry
}

// ClaimExists returns the function by which the journal asks, live, for the claims of stale entries.
func ClaimExists(live client.Reader) func(context.Context, intent.Entry) (bool, error) {
	return func(ctx context.Context, e intent.Entry) (bool, error) {
		claim, err := world.ClaimOf(ctx, live, provision.Key{NamespacedName: e.Claim, UID: e.UID})
		return claim != nil, err
	}
}

// Memory is a journal for as long as the process lives. What upstream remembers is the same (C-33).
type Memory struct {
	mu      sync.Mutex
	entries map[types.UID]intent.Entry
}

var _ Journal = (*Memory)(nil)

// NewMemory returns an empty journal.
func NewMemory() *Memory { return &Memory{entries: map[types.UID]intent.Entry{}} }

// Wait implements Journal.
func (m *Memory) Wait(context.Context) error { return nil }

// CallsEnd implements Journal. There is no previous leader.
func (m *Memory) CallsEnd(string) time.Time { return time.Time{} }

// Discard implements Journal. No other process would read it.
func (m *Memory) Discard(context.Context, types.UID) error { return nil }

// Done implements Journal.
func (m *Memory) Done(types.UID) {}

// Hold implements Journal. No other process has the entries.
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
	switch e = e.Again(); {
	case ok && have.Asks(e.Request):
		e.Former = have.Former
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

// Settle implements Journal.
func (m *Memory) Settle(_ context.Context, claim types.UID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, claim)
	return nil
}

// Pending implements Journal.
func (m *Memory) Pending(claim types.UID) (intent.Entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[claim]
	return e, ok
}

// Len is the number of entries.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}
