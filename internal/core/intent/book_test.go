package intent

import (
	"compress/flate"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/secretref"
)

func secrets(n int) secretref.Set {
	set, _ := secretref.NewSet(map[string]string{names.ParameterSecretName: fmt.Sprint("secret-", n), names.ParameterSecretNamespace: "s"}, secretref.Scope{})
	return set
}

func entry(n int) Entry {
	return Entry{
		Claim: types.NamespacedName{Namespace: "crew", Name: fmt.Sprint("claim-", n)}, UID: types.UID(fmt.Sprint("uid-", n)),
		VolumeName: fmt.Sprint("pvc-uid-", n),
		Request: &csi.CreateVolumeRequest{
			Name: fmt.Sprint("pvc-uid-", n), CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 30},
			Parameters: map[string]string{"tier": "ssd", "zone": "a"},
		},
		Secrets: secrets(n),
	}
}

func large(n, bytes int) Entry {
	e := entry(n)
	e.Request.Parameters["pad"] = strings.Repeat("x", bytes)
	return e
}

func encode(entries []Entry) (string, error) {
	var once packer
	return once.encode(entries)
}

func TestEncodeDecode(t *testing.T) {
	entries := []Entry{entry(1), entry(2)}
	text, err := encode(entries)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(text)
	if diff := cmp.Diff(entries, got, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if text, err := encode(nil); text != "" || err != nil {
		t.Errorf("no entries are %q, %v", text, err)
	}
	if got, err := Decode(""); got != nil || err != nil {
		t.Errorf("no text is %v, %v", got, err)
	}
}

// A record that is not understood must not be taken for one that does not exist.
func TestDecodeRefusesWhatItCannotRead(t *testing.T) {
	text, _ := encode([]Entry{entry(1)})
	for _, bad := range []string{"v2:" + text[3:], "v1:%", text[:len(text)-8], "nonsense"} {
		if _, err := Decode(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzDecode(f *testing.F) {
	text, _ := encode([]Entry{entry(1), entry(2)})
	f.Add(text)
	f.Add("v1:AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if entries, err := Decode(text); err == nil {
			if _, err := encode(entries); err != nil {
				t.Errorf("what was read cannot be written: %v", err)
			}
		}
	})
}

func TestBookCompresses(t *testing.T) {
	b := NewBook()
	for n := range 300 {
		if _, err := b.Add(entry(n)); err != nil {
			t.Fatal(err)
		}
	}
	text, _, err := b.Take(0)
	if err != nil || len(text) > 16<<10 {
		t.Errorf("300 entries take %d bytes, %v", len(text), err)
	}
}

// What packs the texts is used again and again in a burst, and takes no memory after it. No text
// has anything of the one before.
func TestBookPacksWithOne(t *testing.T) {
	b := NewBook()
	var used *flate.Writer
	for n := range 3 {
		mustAdd(t, b, entry(n))
		text, _, err := b.Take(0)
		if want, _ := encode(b.Entries()); text != want || err != nil {
			t.Errorf("text %d is %q, %v, want %q", n, text, err, want)
		}
		if n > 0 && b.packer.writer != used {
			t.Error("each text has a packer of its own")
		}
		used = b.packer.writer
	}
	for n := range 3 {
		b.Remove(entry(n).UID)
	}
	if text, _, err := b.Take(0); text != "" || err != nil || b.packer.writer != nil {
		t.Errorf("without entries the text is %q, %v, and the packer stays: %t", text, err, b.packer.writer != nil)
	}
}

func TestBookAddsOnce(t *testing.T) {
	b := NewBook()
	mustAdd(t, b, entry(1))
	if _, _, err := b.Take(0); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, b, entry(1))
	if len(b.Dirty()) != 0 {
		t.Error("the same entry again is a reason to write")
	}
	changed := entry(1)
	changed.Request.Parameters["tier"] = "tape"
	mustAdd(t, b, changed)
	if got, _ := b.Get("uid-1"); got.Request.GetParameters()["tier"] != "tape" || b.Len() != 1 || len(b.Dirty()) != 1 {
		t.Errorf("another request for the claim: %v", got)
	}
}

func mustAdd(t *testing.T, b *Book, e Entry) {
	t.Helper()
	if _, err := b.Add(e); err != nil {
		t.Fatal(err)
	}
}

// A page never grows beyond what an object may hold, and a full book says so instead of forgetting
// something.
func TestBookIsBounded(t *testing.T) {
	b := NewBook()
	n := 0
	for ; ; n++ {
		if _, err := b.Add(large(n, 8<<10)); errors.Is(err, ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if b.Pages() != MaxPages || b.Len() != n {
		t.Errorf("%d pages, %d entries of %d", b.Pages(), b.Len(), n)
	}
	for i := range b.Pages() {
		text, _, err := b.Take(i)
		if err != nil || len(text) > 256<<10 {
			t.Errorf("page %d has %d bytes, %v", i, len(text), err)
		}
	}
	b.Remove("uid-0")
	mustAdd(t, b, large(n, 8<<10))
	if _, err := b.Add(large(n+1, maxEntry)); err == nil || errors.Is(err, ErrFull) {
		t.Errorf("an entry that can never fit: %v", err)
	}
}

// C-45, H-1: a request that takes the place of others keeps those in mind that a call may have met,
// on record too.
func TestBookKeepsFormerRequests(t *testing.T) {
	of := func(tier string) Entry {
		e := entry(1)
		e.Request.Parameters["tier"] = tier
		return e
	}
	for _, tc := range []struct {
		what string
		then []Known // of each request, before the next one comes: tape, paper, wood
		want string
	}{
		{"the first may have a volume", []Known{{Refusals: 1}}, "tape ssd"},
		{"the second was refused at once", []Known{{Refusals: 1}, {Refusals: 1, Unmet: true}}, "paper ssd"},
		{"both may have one", []Known{{Refusals: 1}, {Refusals: 1}}, "paper tape ssd"},
		{"the first is not that of the volume", []Known{{Unmet: true}, {Refusals: 1}}, "paper tape"},
		{"only the second was refused at once", []Known{{}, {Unmet: true}, {}}, "wood paper ssd"},
	} {
		b := NewBook()
		mustAdd(t, b, of("ssd"))
		for i, known := range tc.then {
			b.Note("uid-1", known)
			mustAdd(t, b, of([]string{"tape", "paper", "wood"}[i]))
		}
		text, _, err := b.Take(0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(text)
		if err != nil || len(got) != 1 || chain(got[0]) != tc.want {
			t.Errorf("%s: %v, %v, want %s", tc.what, got, err, tc.want)
		}
		have, _ := b.Get("uid-1")
		if diff := cmp.Diff(have, got[0], protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", tc.what, diff)
		}
		again := NewBook()
		again.Load(0, got, time.Time{})
		if text2, _, _ := again.Take(0); text2 != text || size(have) != b.pages[0].bytes {
			t.Errorf("%s: what was taken over is written otherwise, or measured: %d bytes", tc.what, b.pages[0].bytes)
		}
		mustAdd(t, b, of("ssd"))
		if have, _ := b.Get("uid-1"); have.Known != (Known{}) || strings.Count(chain(have), "ssd") != 1 {
			t.Errorf("%s: the first request again is %s, %v", tc.what, chain(have), have.Known)
		}
	}
	b := NewBook()
	for n := range 20 {
		mustAdd(t, b, of(fmt.Sprint(n)))
	}
	if have, _ := b.Get("uid-1"); chain(have) != "19 18 17 16 15 14 13" {
		t.Errorf("after many: %s", chain(have))
	}
}

// chain is the tier of an entry, and of the former ones.
func chain(e Entry) string {
	text := e.Request.GetParameters()["tier"]
	for former := e.Former; former != nil; former = former.Former {
		text += " " + former.Request.GetParameters()["tier"]
	}
	return text
}

// H-1: there is room for another request of each claim on a full page, which may have met the first
// one; and where there is none, the first stays on record.
func TestBookHasRoomForAnotherRequest(t *testing.T) {
	b, n := NewBook(), 0
	for ; b.Pages() == 1; n++ {
		mustAdd(t, b, large(n, 8<<10))
	}
	b.Remove(entry(n - 1).UID)
	other := func(n, bytes int) Entry {
		e := large(n, bytes)
		e.Request.Parameters["zone"] = "b"
		return e
	}
	for i := range n - 1 {
		mustAdd(t, b, other(i, 8<<10))
		if e, _ := b.Get(entry(i).UID); e.Former == nil || b.pageOf[e.UID] != 0 {
			t.Fatalf("claim %d: former request %v, page %d", i, e.Former, b.pageOf[e.UID])
		}
	}
	text, _, err := b.Take(0)
	if err != nil || len(text) > 256<<10-1<<10 {
		t.Errorf("the page has %d bytes, %v", len(text), err)
	}
	for what, e := range map[string]Entry{"no room": other(0, 31<<10), "never any": other(0, 33<<10)} {
		before, _ := b.Get(e.UID)
		if _, err := b.Add(e); err == nil || errors.Is(err, ErrFull) != (what == "no room") {
			t.Errorf("%s: %v", what, err)
		}
		if after, ok := b.Get(e.UID); !ok || !after.Asks(before.Request) || after.Former == nil || b.IsUnwritten(e.UID) {
			t.Errorf("%s: what was on record is not as it was: %v", what, after)
		}
	}
}

// A full book forgets what the driver has refused rather than stop all others, and no more of it
// than it must.
func TestBookGivesWay(t *testing.T) {
	b, n := NewBook(), 0
	for ; ; n++ {
		if _, err := b.Add(large(n, 8<<10)); errors.Is(err, ErrFull) {
			break
		}
	}
	for _, uid := range []types.UID{"uid-3", "uid-4", "uid-9"} {
		b.Note(uid, Known{Refusals: 1})
	}
	mustAdd(t, b, large(4, 8<<10)) // its call begins
	mustAdd(t, b, large(n, 8<<10))
	var gone []types.UID
	for i := range n {
		if uid := entry(i).UID; !hasEntry(b, uid) {
			gone = append(gone, uid)
		}
	}
	if diff := cmp.Diff([]types.UID{"uid-3"}, gone); diff != "" {
		t.Error(diff)
	}
	mustAdd(t, b, large(n+1, 8<<10))
	if _, err := b.Add(large(n+2, 8<<10)); !errors.Is(err, ErrFull) || !hasEntry(b, "uid-4") || hasEntry(b, "uid-9") {
		t.Errorf("with nothing left to forget: %v", err)
	}
}

func hasEntry(b *Book, uid types.UID) bool {
	_, ok := b.Get(uid)
	return ok
}

func TestBookLoad(t *testing.T) {
	due := time.Unix(100, 0)
	b := NewBook()
	old := entry(1)
	old.Unattended = time.Minute
	b.Load(1, []Entry{old}, due)
	got, ok := b.Get("uid-1")
	if !ok || !got.CallsEnd.Equal(due) || got.Unattended != time.Minute || b.Pages() != 2 || len(b.Dirty()) != 0 {
		t.Errorf("got %+v of %d pages, dirty %v", got, b.Pages(), b.Dirty())
	}
	b.Remove("uid-1")
	if diff := cmp.Diff([]int{1}, b.Dirty()); diff != "" {
		t.Errorf("settling must be written where the entry was:\n%s", diff)
	}
}

// H-1: what nobody has kept for long is stale until a call for it begins, which must be written
// then; what is known of it changes nothing, and neither is what comes onto the page beside it
// stale.
func TestBookHasStaleEntries(t *testing.T) {
	for _, tc := range []struct {
		unattended time.Duration
		stale      bool
	}{{0, false}, {MostUnattended, false}, {MostUnattended + 1, true}} {
		b := NewBook()
		old := []Entry{entry(1), entry(2)}
		Kept{Last: time.Unix(1000, 0)}.Tell(old, time.Unix(1000, 0).Add(tc.unattended))
		b.Load(0, old, time.Time{})
		mustAdd(t, b, entry(3))
		written := func(want ...types.UID) {
			t.Helper()
			if !tc.stale {
				want = nil
			}
			if _, stale, err := b.Take(0); err != nil || !slices.Equal(stale, want) {
				t.Errorf("%s: %v are written as stale, %v, want %v", tc.unattended, stale, err, want)
			}
		}
		written("uid-1", "uid-2")
		b.Note("uid-1", Known{Refusals: 1})
		if e, _ := b.Get("uid-1"); e.IsStale() != tc.stale {
			t.Errorf("%s: stale is %t", tc.unattended, e.IsStale())
		}
		mustAdd(t, b, entry(1))
		if e, _ := b.Get("uid-1"); e.IsStale() || b.IsUnwritten("uid-1") != tc.stale {
			t.Errorf("%s: after a call: stale is %t, to be written %t", tc.unattended, e.IsStale(), b.IsUnwritten("uid-1"))
		}
		written("uid-2")
		other := entry(2)
		other.Request.Parameters["tier"] = "tape"
		mustAdd(t, b, other)
		written()
	}
}

// A claim's entry that was removed may still stand in the API until the page is written. Its next
// one must take that very place: two entries for one claim, on two pages, would outlive a crash
// between the writes of the pages.
func TestBookNeverHasAClaimOnTwoPages(t *testing.T) {
	b := NewBook()
	mustAdd(t, b, large(0, 10<<10))
	for n := 1; b.Pages() == 1; n++ {
		mustAdd(t, b, large(n, 10<<10))
	}
	take := func() {
		if _, _, err := b.Take(0); err != nil {
			t.Fatal(err)
		}
	}
	take()
	b.Remove("uid-1") // room for one more
	b.Remove("uid-0")
	mustAdd(t, b, large(99, 10<<10))
	mustAdd(t, b, large(98, 10<<10)) // page 0 is full again
	for _, e := range b.pages[0].list() {
		e.Request = proto.CloneOf(e.Request)
		e.Request.Parameters["zone"] = "b"
		mustAdd(t, b, e) // and with what the others may yet ask for
	}
	if _, err := b.Add(large(0, 10<<10)); !errors.Is(err, ErrFull) {
		t.Fatalf("before the write: %v", err)
	}
	take()
	if _, err := b.Add(large(0, 10<<10)); !errors.Is(err, ErrFull) {
		t.Fatalf("while the write is under way: %v", err)
	}
	b.Spoil(0)
	take()
	take() // written for good
	if i, err := b.Add(large(0, 10<<10)); i != 1 || err != nil {
		t.Errorf("after the write: page %d, %v", i, err)
	}
}

// What is on the pages, read back, is what was added and not removed: the naive oracle is a map.
func TestBookAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, oracle := NewBook(), map[types.UID]bool{}
		pages := map[int]string{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				e := large(rapid.IntRange(0, 20).Draw(t, "n"), rapid.IntRange(0, 16<<10).Draw(t, "pad"))
				if _, err := b.Add(e); err != nil {
					t.Fatal(err)
				}
				oracle[e.UID] = true
			},
			"remove": func(t *rapid.T) {
				uid := entry(rapid.IntRange(0, 20).Draw(t, "n")).UID
				b.Remove(uid)
				delete(oracle, uid)
			},
			"write": func(t *rapid.T) {
				for _, i := range b.Dirty() {
					text, _, err := b.Take(i)
					if err != nil {
						t.Fatal(err)
					}
					pages[i] = text
				}
				got := map[types.UID]bool{}
				for _, text := range pages {
					entries, err := Decode(text)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range entries {
						if got[e.UID] {
							t.Fatalf("%s is on record twice", e.UID)
						}
						got[e.UID] = true
					}
				}
				if diff := cmp.Diff(oracle, got); diff != "" {
					t.Fatalf("on record (-want +got):\n%s", diff)
				}
			},
		})
	})
}
