package intent

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// written are the claims on a page, as it is written now, in the order of their uids.
func written(t *testing.T, b *Book, page int) []types.UID {
	t.Helper()
	text, _, err := b.Take(page)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(slices.Values(uids(entries)))
}

// A write for one request takes those along that are expected, and the call for one of these needs
// none.
func TestWhatIsExpectedIsTakenAlong(t *testing.T) {
	b := NewBook()
	b.Expect(entry(1))
	b.Expect(entry(2))
	b.Expect(entry(2))
	if len(b.Dirty()) > 0 {
		t.Error("what is expected is a reason to write")
	}
	mustAdd(t, b, entry(3))
	if got := written(t, b, 0); !slices.Equal(got, []types.UID{"uid-1", "uid-2", "uid-3"}) {
		t.Errorf("on record: %v", got)
	}
	if _, open := b.Get("uid-1"); open || b.Len() != 1 || len(b.Entries()) != 1 {
		t.Error("what was never sent is taken for what may have been")
	}
	mustAdd(t, b, entry(1))
	if e, open := b.Get("uid-1"); !open || e.Ahead || b.IsUnwritten("uid-1") || len(b.Dirty()) > 0 {
		t.Errorf("asked for: open %t, ahead %t, to be written %v", open, e.Ahead, b.Dirty())
	}
	b.Unexpect("uid-1")
	if _, open := b.Get("uid-1"); !open {
		t.Error("H-1: a request that may have been sent was forgotten")
	}
	b.Unexpect("uid-2")
	if got := written(t, b, 0); !slices.Equal(got, []types.UID{"uid-1", "uid-3"}) {
		t.Errorf("without the one that nobody asked for: %v", got)
	}
}

// Another request than the expected one is written, and has no former one that a call may have met.
func TestWhatIsExpectedMayTurnOutOtherwise(t *testing.T) {
	b := NewBook()
	mustAdd(t, b, entry(0))
	b.Expect(entry(1))
	written(t, b, 0)
	other := entry(1)
	other.Request.Parameters["tier"] = "tape"
	mustAdd(t, b, other)
	if e, open := b.Get("uid-1"); !open || e.Former != nil || !e.Asks(other.Request) || !b.IsUnwritten("uid-1") {
		t.Errorf("open %t, %+v, to be written %v", open, e, b.Dirty())
	}
}

// What was asked for comes before what may be asked for, which has to wait for room again.
func TestWhatIsExpectedGivesWay(t *testing.T) {
	const bytes = 30 << 10
	b := NewBook()
	mustAdd(t, b, large(0, bytes))
	for n := 1; n <= 3; n++ {
		b.Expect(large(n, bytes))
	}
	if got := written(t, b, 0); len(got) != 3 {
		t.Fatalf("a page has %v", got)
	}
	mustAdd(t, b, large(4, bytes))
	if got := written(t, b, 0); b.Pages() != 1 || !slices.Equal(got, []types.UID{"uid-0", "uid-1", "uid-4"}) {
		t.Errorf("%d pages, on the first %v", b.Pages(), got)
	}
	b.Remove("uid-0")
	if got := written(t, b, 0); !slices.Equal(got, []types.UID{"uid-1", "uid-2", "uid-4"}) {
		t.Errorf("when there is room: %v", got)
	}
	b.UnexpectAll()
	if got := written(t, b, 0); !slices.Equal(got, []types.UID{"uid-4"}) {
		t.Errorf("at the end: %v", got)
	}
}

func TestWhatIsExpectedIsBounded(t *testing.T) {
	b := NewBook()
	for n := range mostExpected + 1 {
		b.Expect(entry(n))
	}
	b.Expect(large(mostExpected+2, maxEntry+1))
	if n := len(b.expected.entries); n != mostExpected {
		t.Errorf("%d requests are expected", n)
	}
	for n := range mostExpected {
		b.Unexpect(entry(n).UID)
	}
	b.Expect(entry(0)) // and for a long time
	for n := range 10 * mostIdle {
		b.Expect(entry(1 + n))
		b.Unexpect(entry(1 + n).UID)
	}
	if n := len(b.expected.order); n > 2*mostIdle {
		t.Errorf("%d names for one that is expected", n)
	}
	b.Unexpect("uid-0")
	if b.expected.entries != nil || b.expected.order != nil {
		t.Error("what is not expected any more takes memory")
	}
}

// H-1: what a former process left is about calls that may have been made, whatever is expected of
// the same claim.
func TestLeftRequestsCountBeforeExpectedOnes(t *testing.T) {
	due := time.Unix(100, 0)
	for _, tc := range []struct {
		before bool // expected on a page, and not in memory alone
		page   int
	}{{false, 0}, {false, 1}, {true, 0}, {true, 1}} {
		b := NewBook()
		b.Expect(entry(1))
		if tc.before {
			mustAdd(t, b, entry(0))
			written(t, b, 0)
		}
		b.Load(tc.page, []Entry{entry(1)}, due)
		if got := written(t, b, 0); slices.Contains(got, "uid-1") != (tc.page == 0) {
			t.Errorf("%+v: on page 0: %v", tc, got)
		}
		e, open := b.Get("uid-1")
		if page, _ := b.PageOf("uid-1"); !open || page != tc.page || !e.CallsEnd.Equal(due) {
			t.Errorf("%+v: open %t, on page %d, %+v", tc, open, page, e)
		}
	}
}

// What another page may still have is not put on this one.
func TestWhatIsExpectedIsNeverOnTwoPages(t *testing.T) {
	b := NewBook()
	mustAdd(t, b, entry(1))
	b.Load(1, []Entry{entry(2)}, time.Time{})
	written(t, b, 0)
	b.Remove("uid-1") // and page 0 still has it
	b.Expect(entry(1))
	if got := written(t, b, 1); !slices.Equal(got, []types.UID{"uid-2"}) {
		t.Errorf("on page 1: %v", got)
	}
}

// However large, one that was asked for has a page, and none that is expected holds up the others.
func TestWhatIsExpectedIsNeverTooLarge(t *testing.T) {
	b := NewBookOf(1 << 10)
	mustAdd(t, b, entry(0))
	for _, e := range []Entry{large(1, 2<<10), entry(2)} {
		b.Expect(e)
	}
	if got := written(t, b, 0); !slices.Equal(got, []types.UID{"uid-0", "uid-2"}) {
		t.Errorf("on page 0: %v", got)
	}
	b.Remove("uid-0")
	written(t, b, 0)
	mustAdd(t, b, large(1, 2<<10))
	if got := written(t, b, 0); b.Pages() != 1 || !slices.Equal(got, []types.UID{"uid-1"}) {
		t.Errorf("%d pages, on the first %v", b.Pages(), got)
	}
}

// H-1: as much can be asked for as if nothing were expected.
func TestWhatIsExpectedFillsNothing(t *testing.T) {
	t.Run("another request", func(t *testing.T) {
		b := NewBook()
		mustAdd(t, b, large(0, 20<<10))
		for n := 1; n <= 3; n++ {
			b.Expect(large(n, 20<<10))
		}
		for n := range mostFormers {
			written(t, b, 0)
			other := large(0, 20<<10)
			other.Request.Parameters["tier"] = fmt.Sprint("tape ", n)
			mustAdd(t, b, other)
		}
	})
	t.Run("but not in its own place", func(t *testing.T) {
		b := NewBook()
		mustAdd(t, b, large(0, 28<<10))
		b.Expect(large(1, 20<<10))
		for n := range 5 {
			written(t, b, 0)
			other := large(0, 28<<10)
			other.Request.Parameters["tier"] = fmt.Sprint("tape ", n)
			mustAdd(t, b, other)
		}
		if _, err := b.Add(large(1, 31<<10)); !errors.Is(err, ErrFull) || b.expected.has("uid-1") || b.pages[0].bytes > maxPageBytes {
			t.Errorf("%v; waits for room again: %t", err, b.expected.has("uid-1"))
		}
	})
	t.Run("with what the driver has refused", func(t *testing.T) {
		b := NewBook()
		for i := range MaxPages {
			b.Load(i, []Entry{large(i, 24<<10), large(100+i, 24<<10), large(200+i, 24<<10)}, time.Time{})
			b.Note(entry(i).UID, Known{Refusals: 1})
			b.Expect(large(300+i, 18<<10))
			written(t, b, i)
		}
		mustAdd(t, b, large(400, 30<<10))
		if _, open := b.Get("uid-0"); open {
			t.Error("nothing gave way")
		}
	})
}

// Of two pages that may have a claim's request, the one counts where it is: the other is about to
// lose it.
func TestAnotherRequestStaysOnItsPage(t *testing.T) {
	b := NewBook()
	mustAdd(t, b, entry(0))
	b.Expect(entry(1))
	written(t, b, 0)
	b.Load(1, []Entry{entry(1)}, time.Time{})
	written(t, b, 1)
	written(t, b, 0)
	b.Note("uid-1", Known{Refusals: 1})
	other := entry(1)
	other.Request.Parameters["tier"] = "tape"
	if page, err := b.Add(other); page != 1 || err != nil {
		t.Errorf("on page %d, %v", page, err)
	}
}

// What is on the pages are the requests that were added, each once, whatever else is expected.
func TestExpectedBesideAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, added, expected := NewBookOf(1<<10), map[types.UID]bool{}, map[types.UID]bool{}
		pages := map[int][]Entry{} // as they stand in the API
		some := func(t *rapid.T) Entry { return entry(rapid.IntRange(0, 20).Draw(t, "n")) }
		t.Repeat(map[string]func(*rapid.T){
			"expect": func(t *rapid.T) {
				e := some(t)
				b.Expect(e)
				expected[e.UID] = true
			},
			"unexpect": func(t *rapid.T) {
				e := some(t)
				b.Unexpect(e.UID)
				delete(expected, e.UID)
			},
			"add": func(t *rapid.T) {
				e := some(t)
				if _, err := b.Add(e); err != nil {
					t.Skip(err)
				}
				added[e.UID] = true
				delete(expected, e.UID)
			},
			"remove": func(t *rapid.T) {
				e := some(t)
				b.Remove(e.UID)
				b.Unexpect(e.UID)
				delete(added, e.UID)
				delete(expected, e.UID)
			},
			"lose": func(t *rapid.T) {
				i := rapid.IntRange(0, b.Pages()-1).Draw(t, "page")
				b.Lose(i)
				pages[i] = nil
			},
			"write, in vain or not": func(t *rapid.T) {
				for _, i := range b.Dirty() {
					text, _, err := b.Take(i)
					if err != nil {
						t.Fatal(err)
					}
					if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
						b.Spoil(i)
					} else if pages[i], err = Decode(text); err != nil {
						t.Fatal(err)
					}
				}
			},
			"": func(t *rapid.T) {
				on := map[types.UID]int{}
				for _, entries := range pages {
					for _, e := range entries {
						on[e.UID]++
					}
				}
				for uid, n := range on {
					if n > 1 {
						t.Fatalf("%s is on record %d times", uid, n)
					}
				}
				for uid := range added {
					if on[uid] == 0 && !b.IsUnwritten(uid) {
						t.Fatalf("H-1: %s is not on record, and not to be written", uid)
					}
					if i, _ := b.PageOf(uid); b.IsUnwritten(uid) && !slices.Contains(b.Dirty(), i) {
						t.Fatalf("H-1: %s is on a page that nobody writes", uid)
					}
					delete(on, uid)
				}
				if len(b.Dirty()) > 0 {
					return
				}
				for uid := range on {
					if !expected[uid] {
						t.Fatalf("%s is on record, and neither added nor expected", uid)
					}
				}
				if diff := cmp.Diff(len(added), b.Len()); diff != "" {
					t.Fatal(fmt.Sprint("those that may have been sent: ", diff))
				}
			},
		})
	})
}
