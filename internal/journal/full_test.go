package journal

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	intent "github.com/purser-csi/purser/internal/journal/rules"
)

// noisy is an entry that does not compress: bytes is about what it takes in the text.
func noisy(n, bytes int) intent.Entry {
	e := entry(n)
	noise := make([]byte, bytes*3/4)
	random := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	e.Request.AccessibilityRequirements = nil
	e.Request.Parameters = map[string]string{"noise": string(toText(noise))}
	return e
}

// toText has as little redundancy as valid UTF-8 of one byte a rune may have.
func toText(noise []byte) []byte {
	for i := range noise {
		noise[i] &= 0x7f
	}
	return noise
}

// A full journal holds back new requests and loses none; those wait until others are resolved.
func TestAFullJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		n := 0
		for ; ; n++ {
			if err := j.Record(t.Context(), noisy(n, 20<<10)); errors.Is(err, intent.ErrFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if got := a.onRecord(t); len(got) != n || j.Len() != n || j.Size() > intent.MaxText {
			t.Errorf("%d entries of %d are in the Lease, with %d bytes", len(got), n, j.Size())
		}
		writes := a.writes.Load()
		if err := j.Record(t.Context(), noisy(n, 20<<10)); !errors.Is(err, intent.ErrFull) || a.writes.Load() != writes {
			t.Errorf("once more: %v, after %d writes", err, a.writes.Load()-writes)
		}
		other := noisy(0, 20<<10) // the class was made again
		other.Request.Parameters["zone"] = "b"
		if err := j.Record(t.Context(), other); err != nil {
			t.Errorf("another request of a recorded claim: %v", err)
		}
		for _, claim := range []intent.Entry{entry(0), entry(1), entry(2)} {
			if err := j.Resolve(t.Context(), claim.UID); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Record(t.Context(), noisy(n, 20<<10)); err != nil {
			t.Errorf("with others resolved: %v", err)
		}
		j.end(t)
	})
}
