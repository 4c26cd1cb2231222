package intent

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// mostExpected bounds how many requests wait for a write that takes them along, to about ten
// megabytes: beyond that each is written when it is due, as any other.
const mostExpected = 8 << 10

// expected are requests that wait for a write, in their order.
type expected struct {
	entries map[types.UID]Entry
	order   []types.UID // may name some that do not wait any more, or twice
}

func (x *expected) has(claim types.UID) bool {
	_, has := x.entries[claim]
	return has
}

func (x *expected) add(e Entry) {
	if x.entries == nil {
		x.entries = map[types.UID]Entry{}
	}
	x.entries[e.UID] = e
	x.order = append(x.order, e.UID)
	if len(x.order) > 2*len(x.entries)+mostIdle {
		x.tidy()
	}
}

// mostIdle is how many names of those that wait no more are nothing to tidy up for.
const mostIdle = 64

// tidy leaves each name once, where it came first.
func (x *expected) tidy() {
	seen := map[types.UID]bool{}
	x.order = slices.DeleteFunc(x.order, func(claim types.UID) bool {
		out := seen[claim] || !x.has(claim)
		seen[claim] = true
		return out
	})
}

// addFirst has entries wait before all others, in the reverse of their order.
func (x *expected) addFirst(entries []Entry) {
	rest := x.order
	x.order = nil
	for _, e := range slices.Backward(entries) {
		x.add(e)
	}
	x.order = append(x.order, rest...)
}

func (x *expected) remove(claim types.UID) {
	if delete(x.entries, claim); len(x.entries) == 0 {
		*x = expected{}
	}
}

// first is false when none waits.
func (x *expected) first() (Entry, bool) {
	for len(x.order) > 0 {
		if e, waits := x.entries[x.order[0]]; waits {
			return e, true
		}
		x.order = x.order[1:]
	}
	return Entry{}, false
}

// Expect names a request that is likely to be sent, though nobody has asked for it yet. It goes
// onto the record with a write that is made anyway, as far as there is room, so that the call need
// not wait for one of its own. [Book.Add] is still what comes before a call.
//
// Nothing was sent for it, so that it is no reason to make up for anything, for as long as this
// process lives: [Book.Get] and [Book.Entries] do not have it. Whoever takes the record over cannot
// tell it from others, and repeats or undoes what never began: a call too many after a crash, and
// never one too few.
func (b *Book) Expect(e Entry) {
	if _, have := b.pageOf[e.UID]; have || b.expected.has(e.UID) || len(b.expected.entries) >= mostExpected ||
		sizeAlone(e) > maxEntry {
		return
	}
	e = e.Again()
	e.Ahead = true
	b.expected.add(e)
}

// Unexpect forgets a request for which no call has begun.
func (b *Book) Unexpect(claim types.UID) {
	b.expected.remove(claim)
	if e, ok := b.entry(claim); ok && e.Ahead {
		b.Remove(claim)
	}
}

// UnexpectAll leaves nothing on record but what may have been sent.
func (b *Book) UnexpectAll() {
	b.expected = expected{}
	for i := range b.pages {
		for _, e := range b.pages[i].ahead() {
			b.Remove(e.UID)
		}
	}
}

// ahead are the entries of a page that may go, the last first.
func (p *page) ahead() (entries []Entry) {
	for _, e := range slices.Backward(p.list()) {
		if e.Ahead {
			entries = append(entries, e)
		}
	}
	return entries
}

// fill takes along what is expected, in its order. What another page may still have, or has no room
// on any, is left to [Book.Add].
func (b *Book) fill(i int) {
	for {
		e, waits := b.expected.first()
		if !waits {
			return
		}
		need := size(e)
		if need <= b.forNew && b.pages[i].bytes+need > b.forNew {
			return
		}
		b.expected.remove(e.UID)
		if on, may := b.mayStandOn(e.UID); need <= b.forNew && (!may || on == i) {
			b.put(i, e)
		}
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

// displace makes room on a page, up to so many bytes, at the cost of what is only expected there by
// others, the last first: that has to wait again. A page with nothing else has room for one
// request, however large.
func (b *Book) displace(i int, claim types.UID, need, most int) bool {
	p := &b.pages[i]
	free, left := most-p.bytes, len(p.entries)
	var ahead []Entry
	for _, e := range p.ahead() {
		if free < need && e.UID != claim {
			free, left = free+size(e), left-1
			ahead = append(ahead, e)
		}
	}
	if free < need && left > 0 {
		return false
	}
	for _, e := range ahead {
		b.Remove(e.UID)
	}
	b.expected.addFirst(ahead)
	return true
}
