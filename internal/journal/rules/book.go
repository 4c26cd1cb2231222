package intent

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Book is the in-memory model of the journal: the unresolved requests. The package
// internal/journal writes them. It is not safe for concurrent use.
type Book struct {
	entries map[types.UID]Entry
	order   []types.UID // of arrival, so that the text changes as little as the entries do
	dirty   bool        // the text differs from the last one taken
	full    bool        // the last text had no room for new entries
	size    int         // of the last text

	reserved int // bytes that a text which could not be read takes

	// unwritten are the claims whose entry the last text does not have; taken are those whose entry
	// it was the first to have. The value says whether the claim had no entry before: only such an
	// entry may be refused when the journal is full.
	unwritten, taken map[types.UID]bool

	packer packer
}

// NewBook returns an empty book.
func NewBook() *Book {
	return &Book{entries: map[types.UID]Entry{}, unwritten: map[types.UID]bool{}}
}

// Get returns the unresolved entry of a claim.
func (b *Book) Get(claim types.UID) (Entry, bool) {
	e, ok := b.entries[claim]
	if !ok || e.Answered {
		return Entry{}, false
	}
	return e, true
}

// Entries returns all unresolved entries.
func (b *Book) Entries() []Entry {
	return slices.DeleteFunc(b.list(), func(e Entry) bool { return e.Answered })
}

// Len returns the number of unresolved entries.
func (b *Book) Len() int {
	n := 0
	for _, e := range b.entries {
		if !e.Answered {
			n++
		}
	}
	return n
}

// Size returns the number of bytes of the last text, and of what is reserved.
func (b *Book) Size() int { return b.size + b.reserved }

// Add records an entry. The same request again leaves the text as it is and clears what was known
// of its outcome. Another request for the same claim replaces the recorded one. An error changes
// nothing.
func (b *Book) Add(e Entry) error {
	have, ok := b.entries[e.UID]
	switch e = e.Repeated(); {
	case ok && have.IsFor(e.Request) && have.Secrets == e.Secrets:
		again := have.Repeated()
		again.Once = false
		b.entries[e.UID] = again
		if have.Known.Handle != "" || have.Once { // a new leader would delete the volume that the call returns
			b.rewrite(e.UID)
		}
		return nil
	case ok:
		e = e.Replacing(have)
	case b.full:
		return b.errFull()
	default:
		e.Once = true
	}
	if bytes := size(e); bytes > maxEntry {
		return fmt.Errorf(
			"request of claim %s has %d bytes, more than the %d that a journal entry may have", e.Claim, bytes,
			maxEntry,
		)
	}
	b.put(e)
	b.unwritten[e.UID] = !ok || b.unwritten[e.UID]
	b.dirty = true
	return nil
}

func (b *Book) put(e Entry) {
	if _, have := b.entries[e.UID]; !have {
		b.order = append(b.order, e.UID)
	}
	b.entries[e.UID] = e
}

// Load adds the entries of a previous leader, whose calls must have ended at callsEnd.
func (b *Book) Load(entries []Entry, callsEnd time.Time) {
	for _, e := range entries {
		e.CallsEnd = callsEnd
		b.put(e)
	}
}

// Discard stores the handle of a claim's volume that is about to be deleted. It returns false if the
// claim has no entry. The entry counts as unwritten until it is written with the handle.
func (b *Book) Discard(claim types.UID, handle string) bool {
	e, ok := b.entries[claim]
	if !ok || e.Discarding && e.Known.Handle == handle {
		return ok
	}
	e.Discarding, e.Known = true, Known{Handle: handle}
	b.entries[claim] = e
	b.rewrite(claim)
	return true
}

// rewrite makes the entry of a claim, which may be written already, unwritten.
func (b *Book) rewrite(claim types.UID) {
	if _, unwritten := b.unwritten[claim]; !unwritten {
		b.unwritten[claim] = false
	}
	b.dirty = true
}

// Note stores what is known of the volume of a claim's entry, if there is one. It returns whether
// the text changes by that.
func (b *Book) Note(claim types.UID, known Known) bool {
	e, ok := b.Get(claim)
	if !ok {
		return false
	}
	changed := e.Known.Handle != known.Handle
	e.Known = known
	b.entries[claim] = e
	b.dirty = b.dirty || changed
	return changed
}

// Resolve removes the entry of a claim. While a call of a previous leader may be in flight, the
// entry stays in the journal: see [Book.CallsEnd]. No call is in flight for an entry whose only call
// was answered, and its entry is resolved without another call only if it was.
func (b *Book) Resolve(claim types.UID, now time.Time) {
	e, ok := b.entries[claim]
	if !ok || !now.Before(e.CallsEnd) || e.isOnlyCallAnswered() {
		b.remove(claim)
		return
	}
	e.Answered = true
	b.entries[claim] = e
}

// Expire removes the answered entries whose calls must have ended by now.
func (b *Book) Expire(now time.Time) {
	for claim, e := range b.entries {
		if e.Answered && !now.Before(e.CallsEnd) {
			b.remove(claim)
		}
	}
}

// CallsEnd returns when the calls of previous leaders that may create the named volume must have
// ended; zero if there are none. The named volume has a PersistentVolume, whose claim is the given
// one: it proves that the only call of an entry has ended.
func (b *Book) CallsEnd(volume string, claim types.UID) (end time.Time) {
	for _, e := range b.entries {
		if e.UID == claim && e.isOnlyCallAnswered() {
			continue
		}
		if e.VolumeName == volume && e.CallsEnd.After(end) {
			end = e.CallsEnd
		}
	}
	return end
}

// Repeated returns the claims of entries whose request may have been sent more than once.
func (b *Book) Repeated() (claims []types.UID) {
	for _, e := range b.list() {
		if !e.Once {
			claims = append(claims, e.UID)
		}
	}
	return claims
}

func (b *Book) remove(claim types.UID) {
	if _, ok := b.entries[claim]; !ok {
		return
	}
	delete(b.entries, claim)
	delete(b.unwritten, claim)
	b.dirty, b.full = true, false
	if len(b.order) > 2*len(b.entries) {
		b.order = slices.DeleteFunc(b.order, func(claim types.UID) bool { _, have := b.entries[claim]; return !have })
	}
}

// IsEmpty reports whether the book has no entry, answered ones included.
func (b *Book) IsEmpty() bool { return len(b.entries) == 0 }

// IsDirty reports whether the text differs from the last one taken.
func (b *Book) IsDirty() bool { return b.dirty }

// IsUnwritten reports whether the last text does not have the entry of a claim.
func (b *Book) IsUnwritten(claim types.UID) bool {
	_, unwritten := b.unwritten[claim]
	return unwritten
}

// IsTaken reports whether the last text was the first to have the entry of a claim.
func (b *Book) IsTaken(claim types.UID) bool {
	_, taken := b.taken[claim]
	return taken
}

// Take returns the text of all entries, which count as written from now on; see [Book.NotWritten].
// refused are the claims whose new entries were removed for lack of room.
func (b *Book) Take() (text string, refused []types.UID, err error) {
	b.taken = nil // on an error there is no text that [Book.NotWritten] could be about
	for {
		if text, err = b.packer.encode(b.list()); err != nil {
			return "", refused, err
		}
		fresh := b.newest()
		if len(text) <= b.mayTake() || len(fresh) == 0 {
			break
		}
		for _, claim := range fresh[:(len(fresh)+1)/2] {
			b.remove(claim)
			refused = append(refused, claim)
		}
	}
	if len(text) > mostText-b.reserved { // a handle can be learned again, in most cases; a request cannot
		if text, err = b.packer.encode(withoutHandles(b.list())); err != nil {
			return "", refused, err
		}
	}
	b.size, b.full = len(text), len(refused) > 0
	if len(text) > mostText-b.reserved {
		return "", refused, b.errFull()
	}
	b.dirty = false
	b.unwritten, b.taken = map[types.UID]bool{}, b.unwritten
	return text, refused, nil
}

// newest returns the claims whose entries may be refused, the newest first.
func (b *Book) newest() (fresh []types.UID) {
	for _, e := range slices.Backward(b.list()) {
		if b.unwritten[e.UID] {
			fresh = append(fresh, e.UID)
		}
	}
	return fresh
}

// NotWritten says that the write of the last text failed.
func (b *Book) NotWritten() {
	b.dirty = true
	maps.DeleteFunc(b.taken, func(claim types.UID, _ bool) bool { _, have := b.entries[claim]; return !have })
	maps.Copy(b.unwritten, b.taken)
}

func (b *Book) list() []Entry {
	list := make([]Entry, 0, len(b.entries))
	seen := make(map[types.UID]bool, len(b.entries))
	for _, claim := range b.order {
		if e, ok := b.entries[claim]; ok && !seen[claim] {
			seen[claim] = true
			list = append(list, e)
		}
	}
	return list
}
