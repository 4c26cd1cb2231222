package intent

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestKeptIsReadAsItWasWritten(t *testing.T) {
	for _, want := range []Kept{
		{},
		{Last: time.Unix(1000, 1000).UTC()},
		{Last: time.Unix(1000, 1000).UTC(), Stale: []types.UID{"uid-1", "uid-2"}},
	} {
		got, err := ParseKept(want.Text())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", want.Text(), err, diff)
		}
	}
	// What stands in clusters is read by every later version.
	if text := (Kept{Last: time.Unix(1000, 0), Stale: []types.UID{"a", "b"}}).Text(); text != "1970-01-01T00:16:40Z a b" {
		t.Error(text)
	}
	for _, bad := range []string{"", " ", "uid-1", "yesterday uid-1"} {
		if got, err := ParseKept(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

// H-1: an entry is as stale as it was told to be, and all are where nobody has kept the page for
// long, or nobody knows.
func TestKeptTellsOfEachEntry(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tc := range []struct {
		what string
		kept Kept
		want []types.UID
	}{
		{"a minute ago", Kept{Last: now.Add(-time.Minute)}, nil},
		{"a minute ago, one before that", Kept{Last: now.Add(-time.Minute), Stale: []types.UID{"uid-2", "uid-9"}}, []types.UID{"uid-2"}},
		{"just long enough", Kept{Last: now.Add(-MostUnattended)}, nil},
		{"too long", Kept{Last: now.Add(-MostUnattended - 1)}, []types.UID{"uid-1", "uid-2"}},
		{"too long, one before that", Kept{Last: now.Add(-MostUnattended - 1), Stale: []types.UID{"uid-2"}}, []types.UID{"uid-1", "uid-2"}},
		{"by a clock that is ahead", Kept{Last: now.Add(time.Minute), Stale: []types.UID{"uid-2"}}, []types.UID{"uid-2"}},
		{"nobody knows", Kept{}, []types.UID{"uid-1", "uid-2"}},
	} {
		entries := []Entry{entry(1), entry(2)}
		tc.kept.Tell(entries, now)
		if got := StaleOf(entries); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.what, got, tc.want)
		}
	}
}

func FuzzParseKept(f *testing.F) {
	f.Add("")
	f.Add("1970-01-01T00:16:40Z a b")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKept(text)
		if err != nil {
			return
		}
		again, err := ParseKept(k.Text())
		if err != nil || !again.Last.Equal(k.Last) || !slices.Equal(again.Stale, k.Stale) {
			t.Errorf("%q is read as %+v, and %q as %+v, %v", text, k, k.Text(), again, err)
		}
	})
}
