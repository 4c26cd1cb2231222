package journal

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/names"
)

// The budget: requests that were expected are on record with one write, however slowly they are
// asked for, but for the writes that calls need to begin. An orderly end leaves none of those that
// nobody asked for, and whoever takes over after a crash finds them all.
func TestExpectedRequestsShareWrites(t *testing.T) {
	const expected, asked = 100, 50
	for name, end := range map[string]func(running){
		"ended":  func(j running) { j.end(t) },
		"killed": running.die,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				j := start(t, a, "one")
				before := a.writes.Load()
				for n := range expected {
					j.Expect(entry(n))
				}
				time.Sleep(idle * 2)
				if got := a.writes.Load() - before; got > 0 {
					t.Errorf("%d writes for nothing", got)
				}
				begun := time.Now()
				for n := range asked {
					time.Sleep(50 * time.Millisecond)
					record(t, j.Journal, n)
					call(t, j.Journal, n)
					if err := j.Settle(t.Context(), entry(n).UID); err != nil {
						t.Fatal(err)
					}
					j.Done(entry(n).UID)
				}
				if got, most := a.writes.Load()-before, int32(time.Since(begun)/fresh)+2; got > most {
					t.Errorf("%d writes for %d requests, want at most %d", got, asked, most)
				}
				if j.Len() > 0 || len(j.Entries()) > 0 {
					t.Errorf("%d may have been sent", j.Len())
				}
				j.Unexpect(entry(asked).UID)
				time.Sleep(idle * 2)
				end(j)
				next := start(t, a, "next")
				want := 0
				if name == "killed" {
					want = expected - asked - 1
				}
				if next.Len() != want {
					t.Errorf("the next holder found %d requests, want %d", next.Len(), want)
				}
				next.end(t)
			})
		})
	}
}

// H-1: what a write takes along is on record when it is answered.
func TestExpectedRequestsAreDurableWhenTheirWriteIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		const answer = 3 * time.Second
		j := start(t, a, "one", slowly(answer))
		time.Sleep(2 * answer)
		j.Expect(entry(1))
		begun := time.Now()
		recorded := make(chan error, 1)
		go func() { recorded <- j.Record(t.Context(), entry(0)) }()
		time.Sleep(answer / 2)
		record(t, j.Journal, 1)
		if took := time.Since(begun); took < answer || took > answer+time.Second {
			t.Errorf("on record after %s, and the write that has it took %s", took, answer)
		}
		if err := <-recorded; err != nil {
			t.Fatal(err)
		}
		j.end(t)
	})
}

// H-1: what is expected while a write is under way is not on record with it; nor with one that
// failed.
func TestExpectedRequestsAreDurableWhenTheyAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		record(t, j.Journal, 0)
		j.Expect(entry(1))
		problem := errors.New("no answer")
		a.refuse.Store(&problem)
		if err := j.Record(t.Context(), entry(2)); err == nil {
			t.Fatal("recorded without an API server")
		}
		if err := j.Record(t.Context(), entry(1)); err == nil {
			t.Error("H-1: it is taken for written by a write that failed")
		}
		a.refuse.Store(nil)
		record(t, j.Journal, 1)
		if got := a.onRecord(t); len(got) != 3 {
			t.Errorf("on record: %v", got)
		}
		j.end(t)
	})
}

// H-1: somebody deletes a page, which is made again without what stood there, since another page is
// to be named on it. What was on record ahead of time is not any more.
func TestExpectedRequestsOfAPageThatIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		j.Expect(entry(100))
		record(t, j.Journal, 0)
		for n := 1; j.book.Pages() == 1; n++ {
			if got := a.onRecord(t); len(got) != n+1 {
				t.Fatalf("on record: %v", got)
			}
			time.Sleep(2 * idle) // until nothing is to be written
			if err := a.Delete(t.Context(), a.lease(t, "j")); err != nil {
				t.Fatal(err)
			}
			if err := j.Record(t.Context(), big(n)); err != nil {
				t.Fatal(err)
			}
		}
		record(t, j.Journal, 100)
		if got := a.onRecord(t); !slices.ContainsFunc(got, func(e intent.Entry) bool { return e.UID == entry(100).UID }) {
			t.Errorf("H-1: a call may begin, and on record are %v", got)
		}
		j.end(t)
	})
}

// H-1: no call begins for what was on record, when somebody has taken it away and the write since
// then was to name another page.
func TestNoCallForWhatIsNotOnRecordAnyMore(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *api){
		"the page is deleted": func(t *testing.T, a *api) {
			t.Helper()
			if err := a.Delete(t.Context(), a.lease(t, "j")); err != nil {
				t.Fatal(err)
			}
		},
		"the text is taken away": func(t *testing.T, a *api) {
			t.Helper()
			edited := a.lease(t, "j")
			delete(edited.Annotations, names.AnnIntents)
			if err := a.Update(t.Context(), edited); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, before := range []bool{false, true} { // recorded before that
			t.Run(fmt.Sprint(name, ", recorded before: ", before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := newAPI(t)
					j := start(t, a, "one")
					fill := func(from, pages int) (next int) {
						for n := from; ; n++ {
							if err := j.Record(t.Context(), big(n)); err != nil {
								t.Fatal(err)
							}
							if j.book.Pages() == pages || n == from+5 {
								return n + 1
							}
						}
					}
					j.Expect(entry(100))
					next := fill(0, 2)
					if before {
						record(t, j.Journal, 100)
					}
					spoil(t, a)
					fill(next, 2)
					if !before {
						record(t, j.Journal, 100)
					}
					call(t, j.Journal, 100)
					if got := a.onRecord(t); !slices.ContainsFunc(got, func(e intent.Entry) bool { return e.UID == entry(100).UID }) {
						t.Errorf("a call has begun, and on record are %d", len(got))
					}
					j.die()
				})
			})
		}
	}
}

// Nothing is expected where no write will come.
func TestNothingIsExpectedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		closed := New(Config{})
		closed.Expect(entry(1))
		closed.Unexpect(entry(1).UID)
		j := start(t, a, "one")
		record(t, j.Journal, 0)
		record(t, j.Journal, 2)
		call(t, j.Journal, 0)
		j.stop()
		synctest.Wait()
		j.Expect(entry(1))
		if err := j.Settle(t.Context(), entry(0).UID); err != nil {
			t.Fatal(err)
		}
		j.Done(entry(0).UID)
		j.end(t)
		if got := a.onRecord(t); len(got) != 1 {
			t.Errorf("on record: %v", got)
		}
	})
}
