package intent

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// mostExpected bounds how many requests wait for a write that takes them along: beyond that each is written when it is due, as any other.
const mostExpected = 2 << 10

// Expect names a request that is likely to be sent, though nobody has asked for it yet. It goes onto the record with a write that is made
// anyway, as far as there is room, so that the call need not wait for one of its own (a burst of claims then has one write for hundreds of
// them, however slowly they are asked for). [Book.Add] is still what comes before a call.
//
// Nothing was sent for it, so that it is no reason to make up for anything, for as long as this process lives: [Book.Get] and [Book.Entries]
// do not have it. Whoever takes the record over cannot tell it from others, and repeats or undoes what never began: a call too many after
// a crash, and never one too few.
func (b *Book) Expect(e Entry) {
	if _, have := b.pageOf[e.UID]; have || len(b.expected) >= mostExpected || b.isExpected(e.UID) || sizeAlone(e) > maxEntry {
		return
	}
	e = e.Again()
	e.Ahead = true
	b.expected = append(b.expected, e)
}

// Unexpect forgets a request for which no call has begun.
func (b *Book) Unexpect(claim types.UID) {
	b.unexpect(claim)
	if e, ok := b.entry(claim); ok && e.Ahead {
		b.Remove(claim)
	}
}

// UnexpectAll leaves nothing on record but what may have been sent.
func (b *Book) UnexpectAll() {
	b.expected = nil
	for i := range b.pages {
		for _, e := range b.pages[i].list() {
			if e.Ahead {
				b.Remove(e.UID)
			}
		}
	}
}

func (b *Book) isExpected(claim types.UID) bool {
	return slices.ContainsFunc(b.expected, func(e Entry) bool { return e.UID == claim })
}

func (b *Book) unexpect(claim types.UID) {
	b.expected = slices.DeleteFunc(b.expected, func(e Entry) bool { return e.UID == claim })
}

// fill takes along what is expected, in its order. What another page may still have is left to [Book.Add].
func (b *Book) fill(i int) {
	p := &b.pages[i]
	for len(b.expected) > 0 {
		e := b.expected[0]
		need := size(e)
		if p.bytes+need > b.forNew {
			return
		}
		b.expected = b.expected[1:]
		if on, may := b.mayStandOn(e.UID); !may || on == i {
			b.put(i, e)
		}
	}
}

// mayStandOn is the page that a claim's entry is on, or may be on in the API server though it was removed.
func (b *Book) mayStandOn(claim types.UID) (page int, may bool) {
	for i := range b.pages {
		p := &b.pages[i]
		if _, stands := p.entries[claim]; stands || p.removed[claim] || p.removing[claim] {
			return i, true
		}
	}
	return 0, false
}

// displace makes room on a page at the cost of what is only expected, the last first. That has to wait again.
func (b *Book) displace(i, need int) bool {
	p := &b.pages[i]
	free := b.forNew - p.bytes
	var ahead []Entry
	for _, e := range slices.Backward(p.list()) {
		if free < need && e.Ahead {
			free += size(e)
			ahead = append(ahead, e)
		}
	}
	if free < need {
		return false
	}
	for _, e := range ahead {
		b.Remove(e.UID)
		b.expected = slices.Insert(b.expected, 0, e)
	}
	return true
}
