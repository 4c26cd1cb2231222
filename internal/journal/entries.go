package journal

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	intent "github.com/purser-csi/purser/internal/journal/rules"
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

// Len returns the number of entries.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.book.Len()
}

// Size returns the bytes that the entries take in the Lease, of [intent.MaxText].
func (j *Journal) Size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.book.Size()
}

// Note stores what is known of the volume of a claim's entry. A handle is written soon, and the rest
// stays in process memory.
func (j *Journal) Note(claim types.UID, known intent.Known) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.book.Note(claim, known) {
		j.writeSoon()
	}
}

// Resolve resolves the entry of a claim. The next write removes it from the Lease; after a crash
// before that, the next leader resolves it again. An entry with a handle is removed soon, so that
// the next leader does not delete a volume that another cluster has made under the same id.
func (j *Journal) Resolve(_ context.Context, claim types.UID) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, _ := j.book.Get(claim)
	j.book.Resolve(claim, j.Now())
	if e.Known.Handle != "" {
		j.writeSoon()
	}
	return nil
}

// Flushed returns when the Lease, which this process still holds, has none of the entries that are
// resolved. Entries that wait for the calls of a previous leader stay. The write that this takes is
// shared with other callers.
func (j *Journal) Flushed(ctx context.Context) error {
	written, err := j.writtenAll()
	if written == nil {
		return err
	}
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return fmt.Errorf("remove resolved requests from the journal: %w", ctx.Err())
	}
}

// writtenAll returns a channel that receives the result of the write; nil without an error if all is
// written.
func (j *Journal) writtenAll() (<-chan error, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch err := j.over(); {
	case err != nil:
		return nil, err
	case j.memory:
		return nil, nil
	case j.book.IsDirty():
		return j.nextWrite(""), nil
	case j.busy:
		return j.anyWrite(""), nil
	}
	return nil, nil
}

// CallsEnd returns when the calls of previous leaders that may create the named volume must have
// ended, so that it may be deleted: it has a PersistentVolume, with the claim of this uid. It is
// zero, or in the past, if there are none.
func (j *Journal) CallsEnd(volume string, claim types.UID) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.Now().Before(j.callsEnd) {
		return time.Time{}
	}
	return j.book.CallsEnd(volume, claim)
}
