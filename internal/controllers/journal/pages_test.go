package journal

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/names"
)

// big is an entry of which half a dozen fill a page.
func big(n int) intent.Entry {
	e := entry(n)
	e.Request.Parameters = map[string]string{"pad": strings.Repeat("x", 15<<10)}
	return e
}

// More than one object holds: further pages, which the first names before they exist.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		for n := range 12 {
			if err := j.Record(t.Context(), big(n)); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.lease(t, "j").Annotations[names.AnnIntentPages]; got != "2" {
			t.Errorf("the first page names %q pages", got)
		}
		next := start(t, a, "next")
		if next.Len() != 12 {
			t.Errorf("the next holder found %d of 12", next.Len())
		}
		if err := j.Record(t.Context(), entry(99)); !errors.Is(err, ErrFenced) {
			t.Errorf("recorded on a page that was taken: %v", err)
		}
		next.end(t)
		<-j.ended
	})
}

// H-1: a former leader that adds a page must not take it from its successor, which has taken over
// the first one meanwhile: it would go on to create volumes beside it.
func TestAPageIsNotTakenFromASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		former := start(t, a, "former")
		for n := range 6 {
			if err := former.Record(t.Context(), big(n)); err != nil {
				t.Fatal(err)
			}
		}
		var next running
		takeOver := func(name string) {
			if a.reading.Store(nil); name != "j-1" {
				t.Errorf("read %q first", name)
			}
			next = start(t, a, "next")
		}
		a.reading.Store(&takeOver)
		if err := former.Record(t.Context(), big(6)); !errors.Is(err, ErrFenced) {
			t.Errorf("recorded beside a new leader: %v", err)
		}
		if holder := a.lease(t, "j-1").Spec.HolderIdentity; *holder != "next" {
			t.Errorf("%q has the second page", *holder)
		}
		<-former.ended
		next.end(t)
	})
}

// H-1: somebody deletes the first page, which named the others. Who makes it anew finds them at
// once, and so does whoever comes next.
func TestPagesThatNobodyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		former := start(t, a, "former")
		for n := range 13 { // on three pages
			if err := former.Record(t.Context(), big(n)); err != nil {
				t.Fatal(err)
			}
		}
		former.die()
		if err := a.Delete(t.Context(), a.lease(t, "j")); err != nil {
			t.Fatal(err)
		}
		for _, holder := range []string{"next", "the one after it"} {
			next := start(t, a, holder)
			if n := next.Len(); n != 7 || len(next.Adopted()) > 0 {
				t.Errorf("%s: %d requests on record, and %d times more of them later", holder, n, len(next.Adopted()))
			}
			next.die()
		}
		if got := a.lease(t, "j").Annotations[names.AnnIntentPages]; got != "3" {
			t.Errorf("the first page names %q pages", got)
		}
	})
}

// Somebody deletes the first page, and the second: the third is not taken for a successor's, and
// what is on it stays on record, is told of, and has the next holder wait for its calls (H-1).
func TestAPageBehindAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		former := start(t, a, "former")
		for n := range 14 {
			if err := former.Record(t.Context(), big(n)); err != nil {
				t.Fatal(err)
			}
		}
		until := call(t, former.Journal, 12)
		former.die()
		for _, page := range []string{"j", "j-1"} {
			if err := a.Delete(t.Context(), a.lease(t, page)); err != nil {
				t.Fatal(err)
			}
		}
		next := start(t, a, "next")
		if err := next.Record(t.Context(), entry(13)); err != nil {
			t.Fatal(err)
		}
		for n := 20; n < 33; n++ {
			if err := next.Record(t.Context(), big(n)); err != nil {
				t.Fatal(err)
			}
		}
		if got, _ := next.Pending("uid-12"); got.VolumeName != "pvc-uid-12" || got.CallsEnd.Before(until) || len(next.Adopted()) != 1 {
			t.Errorf("the request on the page is lost, or nobody is told, or a call for it may go on until %s: %v", until, got)
		}
		if got, _ := next.Pending("uid-13"); len(got.Request.Parameters) != len(entry(13).Request.Parameters) {
			t.Error("an older request took the place of a newer one")
		}
		if entries, err := intent.Decode(a.lease(t, "j-2").Annotations[names.AnnIntents]); err != nil || len(entries) != 2 {
			t.Errorf("on record: %v (%v)", entries, err)
		}
		next.end(t)
		if holder := a.lease(t, "j-2").Spec.HolderIdentity; *holder != "next" {
			t.Errorf("given back to %q while a call of the former holder may go on", *holder)
		}
	})
}
