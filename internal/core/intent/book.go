package intent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds of a book, before compression. A page is one object of the API; its text must stay below
// the 256 KiB that all annotations of an object may take together, however badly it compresses. The
// second half of a page is for requests that take the place of those on it, each of which keeps the
// first in mind.
const (
	MaxPages     = 16
	mostForNew   = 95 << 10
	maxPageBytes = 2 * mostForNew
	maxEntry     = 32 << 10 // the maps of a request have at most 4 KiB each (CSI "Size Limits")
)

// ErrFull says that no further request may be sent before others are settled.
var ErrFull = errors.New("the journal is full")

// Book is the set of unsettled requests, in pages. It only says what should stand on each page;
// somebody else writes them. It is not safe for concurrent use.
type Book struct {
	pages  []page
	pageOf map[types.UID]int
	forNew int // bytes of new requests on a page
	packer packer
}

type page struct {
	entries map[types.UID]Entry
	order   []types.UID // of arrival, so that the text of a page changes as little as its entries do
	bytes   int
	dirty   bool

	// Entries that the text last taken has not, and those that it was the first to have. What is in
	// neither stands in the API, as far as is known.
	unwritten, taken map[types.UID]bool

	// Entries that were removed since the page was last written, and by the write that is under
	// way. They may still stand in the API, so a new entry for the same claim must go to the same
	// page, where it takes the old one's place in one write.
	removed, removing map[types.UID]bool
}

func newPage() page {
	return page{entries: map[types.UID]Entry{}, removed: map[types.UID]bool{}, unwritten: map[types.UID]bool{}}
}

// NewBook has one empty page.
func NewBook() *Book { return NewBookOf(mostForNew) }

// NewBookOf has pages with room for so many bytes of new requests, but for one at least.
func NewBookOf(pageBytes int) *Book {
	return &Book{pages: []page{newPage()}, pageOf: map[types.UID]int{}, forNew: min(pageBytes, mostForNew)}
}

// Get is the entry of a claim whose outcome is not known.
func (b *Book) Get(claim types.UID) (Entry, bool) {
	e, ok := b.entry(claim)
	if !ok || e.Answered {
		return Entry{}, false
	}
	return e, true
}

func (b *Book) entry(claim types.UID) (Entry, bool) {
	i, ok := b.pageOf[claim]
	if !ok {
		return Entry{}, false
	}
	return b.pages[i].entries[claim], true
}

// PageOf is the page that the entry of a claim is on.
func (b *Book) PageOf(claim types.UID) (page int, ok bool) {
	page, ok = b.pageOf[claim]
	return page, ok
}

// Len is the number of entries that [Book.Entries] returns.
func (b *Book) Len() int {
	n := 0
	for i := range b.pages {
		for _, e := range b.pages[i].entries {
			if !e.Answered {
				n++
			}
		}
	}
	return n
}

// Pages is the number of pages; it never falls.
func (b *Book) Pages() int { return len(b.pages) }

// Entries are all whose outcome is not known, page by page.
func (b *Book) Entries() []Entry {
	all := make([]Entry, 0, len(b.pageOf))
	for i := range b.pages {
		for _, e := range b.pages[i].list() {
			if !e.Answered {
				all = append(all, e)
			}
		}
	}
	return all
}

// Add puts an entry on record and says on which page. The same request again changes nothing of the
// page, and from now on nothing is known of its outcome; another request for the same claim
// replaces the first, which the driver must have refused. On an error all stays as it is: what is
// on record may have a volume.
func (b *Book) Add(e Entry) (int, error) {
	e = e.Again()
	have, ok := b.entry(e.UID)
	if ok && have.Asks(e.Request) && have.Secrets == e.Secrets {
		return b.again(have), nil
	}
	if ok {
		e = e.InPlaceOf(have)
	}
	need := size(e)
	if alone := sizeAlone(e); alone > maxEntry {
		return 0, fmt.Errorf(
			"request of claim %s has %d bytes, more than the %d that a record may have",
			e.Claim,
			alone,
			maxEntry,
		)
	}
	i, err := b.room(e.UID, need)
	if err != nil {
		return 0, err
	}
	b.Remove(e.UID)
	b.put(i, e)
	b.pages[i].dirty = true
	return i, nil
}

// put has an entry on a page. No page may have one of its claim.
func (b *Book) put(i int, e Entry) {
	p := &b.pages[i]
	p.entries[e.UID] = e
	p.order = append(p.order, e.UID)
	p.bytes += size(e)
	p.unwritten[e.UID] = true
	b.pageOf[e.UID] = i
}

// again is for one more call with what is on record. An entry that is stale stands on record as
// such, and is not any more, so its page is written.
func (b *Book) again(have Entry) int {
	i := b.pageOf[have.UID]
	p := &b.pages[i]
	p.entries[have.UID] = have.Again()
	if have.IsStale() {
		p.dirty, p.unwritten[have.UID] = true, true
	}
	return i
}

// room is the first page with enough of it, a new one if need be; for a claim that stands on a
// page, or may still do so, that one.
func (b *Book) room(claim types.UID, need int) (int, error) {
	if i, may := b.mayStandOn(claim); may {
		p := &b.pages[i]
		if have, stands := p.entries[claim]; stands {
			need -= size(have)
		}
		if p.bytes+need > maxPageBytes {
			return 0, fmt.Errorf("%w: page %d has no room for another request of this claim", ErrFull, i)
		}
		return i, nil
	}
	for i := range b.pages {
		if p := b.pages[i]; len(p.entries) == 0 || p.bytes+need <= b.forNew {
			return i, nil
		}
	}
	if len(b.pages) < MaxPages {
		b.pages = append(b.pages, newPage())
		return len(b.pages) - 1, nil
	}
	if i, ok := b.giveWay(need); ok {
		return i, nil
	}
	return 0, fmt.Errorf("%w: %d requests are not settled", ErrFull, b.Len())
}

// giveWay makes room at the cost of requests that the driver has refused. That an earlier call for
// one of them has left a volume is unlikely, and that those of others cannot go on is certain.
func (b *Book) giveWay(need int) (int, bool) {
	for i := range b.pages {
		p := &b.pages[i]
		free := b.forNew - p.bytes
		refused := slices.DeleteFunc(p.list(), func(e Entry) bool { return e.Known.Refusals == 0 })
		var out []types.UID
		for _, e := range refused {
			if free < need {
				free += size(e)
				out = append(out, e.UID)
			}
		}
		if free < need {
			continue
		}
		for _, uid := range out {
			b.Remove(uid)
		}
		return i, true
	}
	return 0, false
}

// Note keeps what is known of the volume of a claim's entry, if there is one.
func (b *Book) Note(claim types.UID, known Known) {
	if e, ok := b.Get(claim); ok {
		i := b.pageOf[claim]
		e.Known = known
		b.pages[i].entries[claim] = e
	}
}

// Settle resolves the entry of a claim, whose outcome is known now. While a call of a previous leader
// may be in flight, the entry stays on record: see [Book.CallsEnd].
func (b *Book) Settle(claim types.UID, now time.Time) {
	e, ok := b.entry(claim)
	if !ok || !now.Before(e.CallsEnd) {
		b.Remove(claim)
		return
	}
	e.Answered = true
	b.pages[b.pageOf[claim]].entries[claim] = e
}

// Expire removes the answered entries whose calls must have ended by now.
func (b *Book) Expire(now time.Time) {
	for i := range b.pages {
		for claim, e := range b.pages[i].entries {
			if e.Answered && !now.Before(e.CallsEnd) {
				b.Remove(claim)
			}
		}
	}
}

// CallsEnd is when the calls of previous leaders that may create the named volume must have ended;
// zero when there are none.
func (b *Book) CallsEnd(volume string) (end time.Time) {
	for i := range b.pages {
		for _, e := range b.pages[i].entries {
			if e.VolumeName == volume && e.CallsEnd.After(end) {
				end = e.CallsEnd
			}
		}
	}
	return end
}

// Remove takes the entry of a claim off the record.
func (b *Book) Remove(claim types.UID) {
	i, ok := b.pageOf[claim]
	if !ok {
		return
	}
	p := &b.pages[i]
	p.bytes -= size(p.entries[claim])
	delete(p.entries, claim)
	delete(p.unwritten, claim)
	delete(b.pageOf, claim)
	p.removed[claim] = true
	p.dirty = true
	if len(p.order) > 2*len(p.entries) {
		p.order = uids(p.list())
	}
}

// Dirty are the pages whose text differs from what was last taken.
func (b *Book) Dirty() []int {
	var dirty []int
	for i := range b.pages {
		if b.pages[i].dirty {
			dirty = append(dirty, i)
		}
	}
	return dirty
}

// IsUnwritten reports whether the entry of a claim is to be written, or written anew.
func (b *Book) IsUnwritten(claim types.UID) bool {
	i, ok := b.pageOf[claim]
	return ok && b.pages[i].unwritten[claim]
}

// IsTaken reports whether the text that was last taken of its page is the first to have the entry
// of a claim.
func (b *Book) IsTaken(claim types.UID) bool {
	i, ok := b.pageOf[claim]
	return ok && b.pages[i].taken[claim]
}

// IsEmpty reports whether there is no entry on a page.
func (b *Book) IsEmpty(i int) bool { return len(b.pages[i].entries) == 0 }

// Take is the text of a page, and the uids of the stale
// entries in it, which are to be written with it. Both count as written from now on; see
// [Book.Spoil].
func (b *Book) Take(i int) (text string, stale []types.UID, err error) {
	p := &b.pages[i]
	p.dirty = false
	p.removed, p.removing = map[types.UID]bool{}, p.removed
	p.unwritten, p.taken = map[types.UID]bool{}, p.unwritten
	entries := p.list()
	text, err = b.packer.encode(entries)
	return text, StaleOf(entries), err
}

// Spoil says that the last text of a page was not written after all.
func (b *Book) Spoil(i int) {
	p := &b.pages[i]
	p.dirty = true
	maps.Copy(p.removed, p.removing)
	for claim := range p.taken {
		if _, stands := p.entries[claim]; stands {
			p.unwritten[claim] = true
		}
	}
}

// Lose says that nothing of a page stands in the API any more.
func (b *Book) Lose(i int) {
	b.Spoil(i)
	for claim := range b.pages[i].entries {
		b.pages[i].unwritten[claim] = true
	}
}

// Load puts what a former holder left on a page there, whose calls must have ended by the
// given time. Of a claim that is on another page the last one counts.
func (b *Book) Load(i int, entries []Entry, callsEnd time.Time) {
	for len(b.pages) <= i {
		b.pages = append(b.pages, newPage())
	}
	for _, e := range entries {
		b.Remove(e.UID) // never on two pages, whatever was found
		e.CallsEnd = callsEnd
		b.put(i, e)
		delete(b.pages[i].unwritten, e.UID)
	}
}

// mayStandOn is the page that a claim's entry is on, or may be on in the API server though it was
// removed.
func (b *Book) mayStandOn(claim types.UID) (page int, may bool) {
	if i, stands := b.pageOf[claim]; stands {
		return i, true
	}
	for i := range b.pages {
		if p := &b.pages[i]; p.removed[claim] || p.removing[claim] {
			return i, true
		}
	}
	return 0, false
}

func (p *page) list() []Entry {
	list := make([]Entry, 0, len(p.entries))
	seen := make(map[types.UID]bool, len(p.entries))
	for _, uid := range p.order {
		if e, ok := p.entries[uid]; ok && !seen[uid] {
			seen[uid] = true
			list = append(list, e)
		}
	}
	return list
}

func uids(entries []Entry) []types.UID {
	out := make([]types.UID, len(entries))
	for i := range entries {
		out[i] = entries[i].UID
	}
	return out
}
