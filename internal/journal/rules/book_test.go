package intent

import (
	"compress/flate"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
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

func TestEncodeDecode(t *testing.T) {
	entries := []Entry{entry(1), entry(2)}
	text, err := Encode(entries)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(text)
	if diff := cmp.Diff(entries, got, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if text, err := Encode(nil); text != "" || err != nil {
		t.Errorf("no entries are %q, %v", text, err)
	}
	if got, err := Decode(""); got != nil || err != nil {
		t.Errorf("no text is %v, %v", got, err)
	}
}

// The text says of which entries a deletion is in flight.
func TestDiscardingIsRecorded(t *testing.T) {
	b := NewBook()
	mustAdd(t, b, entry(1))
	mustAdd(t, b, entry(2))
	if text := take(t, b); !strings.HasPrefix(text, version) {
		t.Errorf("without a deletion the text begins with %.3s", text)
	}
	if b.Discard("uid-3", "h") || !b.Discard("uid-2", "h") || !b.IsUnwritten("uid-2") || b.IsUnwritten("uid-1") {
		t.Errorf("noted for the wrong entry: %v", b.unwritten)
	}
	text := take(t, b)
	got, err := Decode(text)
	if err != nil || len(got) != 2 || got[0].Discarding || !got[1].Discarding {
		t.Errorf("%.3s: %+v, %v", text, got, err)
	}
	if b.Discard("uid-2", "h"); b.IsUnwritten("uid-2") || b.IsDirty() {
		t.Error("the same is written again")
	}
	b.Resolve("uid-2", time.Time{})
	if text := take(t, b); !strings.HasPrefix(text, version) {
		t.Errorf("after the deletion the text begins with %.3s", text)
	}
}

// A record that is not understood must not be taken for one that does not exist.
func TestDecodeRefusesWhatItCannotRead(t *testing.T) {
	text, _ := Encode([]Entry{entry(1)})
	for _, bad := range []string{"v9:" + text[3:], "v3:%", text[:len(text)-8], "nonsense"} {
		if _, err := Decode(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzDecode(f *testing.F) {
	text, _ := Encode([]Entry{entry(1), entry(2)})
	f.Add(text)
	f.Add("v3:AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if entries, err := Decode(text); err == nil {
			if _, err := Encode(entries); err != nil {
				t.Errorf("what was read cannot be written: %v", err)
			}
		}
	})
}

func TestBookCompresses(t *testing.T) {
	b := NewBook()
	for n := range 4000 {
		mustAdd(t, b, entry(n))
	}
	if text := take(t, b); len(text) > MaxText || b.Len() != 4000 {
		t.Errorf("%d of 4000 entries take %d bytes", b.Len(), len(text))
	}
}

// The packer of the texts is used again in a burst, and takes no memory after it. No text has
// anything of the one before.
func TestBookPacksWithOne(t *testing.T) {
	b := NewBook()
	var used *flate.Writer
	for n := range 3 {
		mustAdd(t, b, entry(n))
		text := take(t, b)
		if want, _ := Encode(b.Entries()); text != want {
			t.Errorf("text %d is %q, want %q", n, text, want)
		}
		if n > 0 && b.packer.writer != used {
			t.Error("each text has a packer of its own")
		}
		used = b.packer.writer
	}
	for n := range 3 {
		b.Resolve(entry(n).UID, time.Time{})
	}
	if text := take(t, b); text != "" || b.packer.writer != nil {
		t.Errorf("without entries the text is %q, and the packer stays: %t", text, b.packer.writer != nil)
	}
}

func TestBookAddsOnce(t *testing.T) {
	b := NewBook()
	mustAdd(t, b, entry(1))
	take(t, b)
	mustAdd(t, b, entry(1)) // for a second call, which is recorded
	take(t, b)
	mustAdd(t, b, entry(1))
	if b.IsDirty() || b.IsUnwritten("uid-1") {
		t.Error("the same entry for a third time is a reason to write")
	}
	changed := entry(1)
	changed.Request.Parameters["tier"] = "tape"
	mustAdd(t, b, changed)
	if got, _ := b.Get("uid-1"); got.Request.GetParameters()["tier"] != "tape" || b.Len() != 1 || !b.IsDirty() || !b.IsUnwritten("uid-1") {
		t.Errorf("another request for the claim: %v", got)
	}
}

func mustAdd(t *testing.T, b *Book, e Entry) {
	t.Helper()
	if err := b.Add(e); err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, b *Book) string {
	t.Helper()
	text, refused, err := b.Take()
	if err != nil || len(refused) > 0 {
		t.Fatalf("%v are refused, %v", refused, err)
	}
	return text
}

// noise does not compress.
func noise(n, bytes int) Entry {
	e := entry(n)
	random, text := rand.New(rand.NewPCG(uint64(n), 1)), make([]byte, bytes)
	for i := range text {
		text[i] = byte(random.IntN(128))
	}
	e.Request.Parameters["pad"] = string(text)
	return e
}

// The text never grows beyond what an object may hold. A full book refuses new entries, says so, and
// loses none of those that were written.
func TestBookIsBounded(t *testing.T) {
	b := NewBook()
	var written int
	for n := 0; ; n++ {
		mustAdd(t, b, noise(n, 8<<10))
		text, refused, err := b.Take()
		if err != nil || len(text) > MaxText {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		if len(refused) > 0 {
			if refused[0] != entry(n).UID || b.Len() != n || n < 10 {
				t.Errorf("%v is refused, %d of %d entries are left", refused, b.Len(), n)
			}
			written = n
			break
		}
	}
	if err := b.Add(noise(written, 8<<10)); !errors.Is(err, ErrFull) {
		t.Errorf("another one: %v", err)
	}
	other := noise(0, 8<<10)
	other.Request.Parameters["zone"] = "b"
	mustAdd(t, b, other) // it replaces one that is recorded
	if text, refused, err := b.Take(); err != nil || len(refused) > 0 || len(text) <= MaxText {
		t.Errorf("with another request of a recorded claim: %d bytes, %v, %v", len(text), refused, err)
	}
	for n := range 2 {
		b.Resolve(entry(n).UID, time.Time{})
	}
	mustAdd(t, b, noise(written, 8<<10))
	take(t, b)
	if err := b.Add(large(99, maxEntry)); err == nil || errors.Is(err, ErrFull) {
		t.Errorf("an entry that can never fit: %v", err)
	}
}

// A write that fails leaves its entries to the next one; what was written before is not refused then.
func TestBookIsSpoiled(t *testing.T) {
	b := NewBook()
	mustAdd(t, b, entry(1))
	take(t, b)
	mustAdd(t, b, entry(2))
	take(t, b)
	if !b.IsTaken("uid-2") || b.IsTaken("uid-1") {
		t.Error("the text was the first to have the second entry alone")
	}
	b.NotWritten()
	if !b.IsDirty() || !b.IsUnwritten("uid-2") || b.IsUnwritten("uid-1") {
		t.Error("the second entry is to be written again, and the first is not")
	}
	if got := b.newest(); len(got) != 1 || got[0] != "uid-2" {
		t.Errorf("may be refused: %v", got)
	}
}

// A text that is too long is not written, so no entry of the text before it counts as unwritten after
// it: such an entry could be refused, while its call may be in flight.
func TestAnOverfullBookKeepsWhatIsWritten(t *testing.T) {
	b := NewBook()
	for n := range 20 {
		mustAdd(t, b, noise(n, 8<<10))
	}
	take(t, b)
	for n := range 20 {
		mustAdd(t, b, noise(n, 24<<10)) // they replace recorded ones
	}
	if _, _, err := b.Take(); !errors.Is(err, ErrFull) {
		t.Fatalf("with larger requests: %v", err)
	}
	b.NotWritten()
	if may := b.newest(); len(may) > 0 {
		t.Errorf("may be refused: %v", may)
	}
}

// C-45, H-1: an entry that replaces a request keeps the previous request if that may have created a
// volume, in the journal too.
func TestBookKeepsTheReplacedRequest(t *testing.T) {
	of := func(tier string) Entry {
		e := entry(1)
		e.Request.Parameters["tier"] = tier
		return e
	}
	for _, tc := range []struct {
		what  string
		known Known // of the first
		want  string
	}{
		{"the first may have a volume", Known{FinalErrors: 1}, "tape ssd"},
		{"the first was refused at once", Known{FinalErrors: 1, NoVolume: true}, "tape"},
	} {
		b := NewBook()
		b.Load([]Entry{of("ssd")}, time.Unix(100, 0))
		b.Note("uid-1", tc.known)
		mustAdd(t, b, of("tape"))
		text := take(t, b)
		got := mustDecode(t, text)
		if len(got) != 1 || chain(got[0]) != tc.want {
			t.Errorf("%s: %v, want %s", tc.what, got, tc.want)
		}
		have, _ := b.Get("uid-1")
		if !have.CallsEnd.Equal(time.Unix(100, 0)) {
			t.Errorf("%s: the calls end at %s", tc.what, have.CallsEnd)
		}
		again := NewBook()
		again.Load(got, time.Time{})
		if text2 := take(t, again); text2 != text {
			t.Errorf("%s: what was taken over is written otherwise", tc.what)
		}
		mustAdd(t, b, of("ssd"))
		if have, _ := b.Get("uid-1"); have.Known != (Known{}) || strings.Count(chain(have), "ssd") != 1 {
			t.Errorf("%s: the first request again is %s, %v", tc.what, chain(have), have.Known)
		}
	}
}

// chain is the tier of an entry, and of the previous ones.
func chain(e Entry) string {
	text := e.Request.GetParameters()["tier"]
	for former := e.Replaced; former != nil; former = former.Replaced {
		text += " " + former.Request.GetParameters()["tier"]
	}
	return text
}

// H-1: a journal that was not renewed for a day is stale, and one of an unknown time.
func TestIsStale(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, tc := range []struct {
		renewed time.Time
		want    bool
	}{{now, false}, {now.Add(-MaxUnrenewed), false}, {now.Add(-MaxUnrenewed - 1), true}, {time.Time{}, true}} {
		if got := IsStale(tc.renewed, now); got != tc.want {
			t.Errorf("renewed at %s: %t", tc.renewed, got)
		}
	}
}

// The text, read back, is what was added and not resolved: the naive oracle is a map.
func TestBookAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, oracle := NewBook(), map[types.UID]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				e := large(rapid.IntRange(0, 20).Draw(t, "n"), rapid.IntRange(0, 16<<10).Draw(t, "pad"))
				if err := b.Add(e); err != nil {
					t.Fatal(err)
				}
				oracle[e.UID] = true
			},
			"settle": func(t *rapid.T) {
				uid := entry(rapid.IntRange(0, 20).Draw(t, "n")).UID
				b.Resolve(uid, time.Time{})
				delete(oracle, uid)
			},
			"write": func(t *rapid.T) {
				text, _, err := b.Take()
				if err != nil {
					t.Fatal(err)
				}
				if rapid.Bool().Draw(t, "fails") {
					b.NotWritten()
				}
				entries, err := Decode(text)
				if err != nil {
					t.Fatal(err)
				}
				got := map[types.UID]bool{}
				for _, e := range entries {
					if got[e.UID] {
						t.Fatalf("%s is recorded twice", e.UID)
					}
					got[e.UID] = true
				}
				if diff := cmp.Diff(oracle, got); diff != "" {
					t.Fatalf("recorded (-want +got):\n%s", diff)
				}
			},
		})
	})
}
