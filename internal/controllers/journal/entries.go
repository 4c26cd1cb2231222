package journal

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/intent"
)

// Pending returns the entry of a claim.
func (j *Journal) Pending(claim types.UID) (intent.Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.book.Get(claim)
}

// Entries returns all entries.
func (j *Journal) Entries() []intent.Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.book.Entries()
}

// Len is the number of entries.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.book.Len()
}

// Size is the number of bytes that the entries have in the Lease, of [intent.MaxText].
func (j *Journal) Size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.book.Size()
}

// Note keeps what is known of the volume of a claim's entry, for as long as this process lives.
func (j *Journal) Note(claim types.UID, known intent.Known) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.book.Note(claim, known)
}

// Settle resolves the entry of a claim. The API server is told with the next write: until then a
// restart resolves it once more.
func (j *Journal) Settle(_ context.Context, claim types.UID) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.book.Settle(claim, time.Now())
	return nil
}

// CallsEnd is when the calls of previous leaders that may create the named volume must have ended,
// so that it may be deleted. It is zero, or in the past, when there are none.
func (j *Journal) CallsEnd(volume string) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !time.Now().Before(j.callsEnd) {
		return time.Time{}
	}
	return j.book.CallsEnd(volume)
}
