package intent

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/names"
)

const future = "v9:future"

// A text that cannot be read is moved whole, behind one that was moved before, and what can be read stays.
func TestSetAside(t *testing.T) {
	good, err := Encode([]Entry{entry(1)})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ given, want map[string]string }{
		"readable": {
			map[string]string{names.AnnIntents: good},
			map[string]string{names.AnnIntents: good},
		},
		"none":    {map[string]string{}, map[string]string{}},
		"entries": {map[string]string{names.AnnIntents: future}, map[string]string{names.AnnIntentsUnreadable: future}},
		"cut off": {
			map[string]string{names.AnnIntents: good[:len(good)-4], "x": "y"},
			map[string]string{names.AnnIntentsUnreadable: good[:len(good)-4], "x": "y"},
		},
		"one is set aside already": {
			map[string]string{names.AnnIntents: future, names.AnnIntentsUnreadable: "first"},
			map[string]string{names.AnnIntentsUnreadable: "first\n" + future},
		},
	} {
		t.Run(name, func(t *testing.T) {
			readable := Check(tc.given) == nil
			if want := maps.Equal(tc.given, tc.want); readable != want {
				t.Errorf("readable: %t, want %t", readable, want)
			}
			if err := SetAside(tc.given); err != nil || !maps.Equal(tc.given, tc.want) {
				t.Errorf("%v, %v; want %v", tc.given, err, tc.want)
			}
			if err := Check(tc.given); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// A text without room for an entry beside it is refused, and nothing is lost or truncated.
func TestSetAsideHasABound(t *testing.T) {
	for length, want := range map[int]error{MaxText - maxEntry: nil, MaxText - maxEntry + 1: ErrNoRoom} {
		text := strings.Repeat("x", length)
		got := map[string]string{names.AnnIntents: text}
		if err := SetAside(got); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", length, err, want)
		}
		kept := names.AnnIntentsUnreadable
		if want != nil {
			kept = names.AnnIntents
		}
		if got[kept] != text || len(got) != 1 {
			t.Errorf("%d bytes: %s does not have the text", length, kept)
		}
	}
}

// The text that is kept and the entries fit together into the annotations of a Lease.
func TestReserve(t *testing.T) {
	const reserved = MaxText - maxEntry
	b := NewBook()
	b.Reserve(reserved)
	taken := 0
	for n := range 20 {
		if err := b.Add(noise(n, 4<<10)); errors.Is(err, ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		text, refused, err := b.Take()
		if err != nil || len(text)+reserved > MaxText {
			t.Fatalf("%d bytes beside %d: %v", len(text), reserved, err)
		}
		taken += 1 - len(refused)
	}
	if taken == 0 || taken == 20 {
		t.Errorf("%d entries of 20 were taken", taken)
	}
	if b.Size() <= reserved || b.Size() > MaxText {
		t.Errorf("%d bytes in the Lease", b.Size())
	}
}
