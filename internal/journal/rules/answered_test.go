package intent

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// H-1: an entry of a previous leader whose outcome is known stays in the journal until the calls of
// that leader must have ended, with the time until which its volume is not deleted.
func TestAnsweredEntriesStayUntilTheCallsEnd(t *testing.T) {
	ends := time.Unix(1000, 0)
	b := NewBook()
	b.Load([]Entry{entry(1), entry(2)}, ends)
	b.Resolve("uid-1", ends.Add(-time.Second))
	if _, open := b.Get("uid-1"); open || b.Len() != 1 || len(b.Entries()) != 1 {
		t.Errorf("the answered entry is pending: %d entries", b.Len())
	}
	if got := b.CallsEnd(entry(1).VolumeName, entry(1).UID); !got.Equal(ends) {
		t.Errorf("the calls end at %s, want %s", got, ends)
	}
	if b.Expire(ends.Add(-time.Second)); b.IsDirty() {
		t.Error("removed before the calls have ended")
	}
	if text := take(t, b); len(mustDecode(t, text)) != 2 {
		t.Errorf("in the journal: %v", mustDecode(t, text))
	}
	b.Expire(ends)
	if text := take(t, b); len(mustDecode(t, text)) != 1 {
		t.Errorf("in the journal afterwards: %v", mustDecode(t, text))
	}
	if got := b.CallsEnd(entry(1).VolumeName, entry(1).UID); !got.IsZero() {
		t.Errorf("removed, and the calls end at %s", got)
	}
	if b.Resolve("uid-2", ends); b.Len() != 0 || !b.IsDirty() {
		t.Error("an entry whose calls have ended is removed at once")
	}
}

// The same request again is pending again, and another one for the claim waits for the same calls.
func TestRepeatedEntriesKeepTheEndOfTheCalls(t *testing.T) {
	ends := time.Unix(1000, 0)
	b := NewBook()
	b.Load([]Entry{entry(1)}, ends)
	b.Resolve("uid-1", time.Time{})
	mustAdd(t, b, entry(1))
	if e, open := b.Get("uid-1"); !open || !e.CallsEnd.Equal(ends) {
		t.Errorf("the same request again: %+v, pending %v", e, open)
	}
	other := entry(1)
	other.Request = entry(3).Request
	mustAdd(t, b, other)
	if e, _ := b.Get("uid-1"); !e.CallsEnd.Equal(ends) {
		t.Errorf("another request: the calls end at %s", e.CallsEnd)
	}
}

func mustDecode(t *testing.T, text string) []Entry {
	t.Helper()
	entries, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// H-1: a PersistentVolume proves that the calls have ended if only one was sent for its request. A
// second call is recorded before it is sent.
func TestOnlyCallOfAnEntry(t *testing.T) {
	ends, now := time.Unix(100, 0), time.Unix(1, 0)
	e := entry(1)
	written := NewBook()
	if err := written.Add(e); err != nil {
		t.Fatal(err)
	}
	if got := written.Repeated(); len(got) != 0 {
		t.Errorf("before a second call %v counts as repeated", got)
	}
	if _, _, err := written.Take(); err != nil {
		t.Fatal(err)
	}
	if err := written.Add(e); err != nil {
		t.Fatal(err)
	}
	if got := written.Repeated(); len(got) != 1 || !written.IsDirty() || !written.IsUnwritten(e.UID) {
		t.Errorf("before the second call: repeated %v, dirty %v; want a write that says so", got, written.IsDirty())
	}
	discarding, replaced := e, e
	discarding.Discarding = true
	replaced.Replaced = new(entry(2))
	for name, tc := range map[string]struct {
		entry  Entry
		once   bool
		claim  types.UID
		proven bool
	}{
		"the only call":                 {e, true, e.UID, true},
		"repeated":                      {e, false, e.UID, false},
		"of another claim by now":       {e, true, "other", false},
		"DeleteVolume may be under way": {discarding, true, e.UID, false},
		"another request before":        {replaced, true, e.UID, false},
	} {
		b := NewBook()
		tc.entry.Once = tc.once
		b.Load([]Entry{tc.entry}, ends)
		if got := b.CallsEnd(e.VolumeName, tc.claim); got.IsZero() != tc.proven {
			t.Errorf("%s: the calls end at %v", name, got)
		}
		b.Resolve(e.UID, now)
		if want := !tc.proven && tc.claim == e.UID; b.IsEmpty() == want {
			t.Errorf("%s: after it is resolved, empty is %v", name, b.IsEmpty())
		}
	}
	b := NewBook()
	e.Once = true
	b.Load([]Entry{e}, ends)
	if err := b.Add(e); err != nil { // the new leader repeats it
		t.Fatal(err)
	}
	if got := b.CallsEnd(e.VolumeName, e.UID); !got.Equal(ends) {
		t.Errorf("repeated by the new leader: the calls end at %v", got)
	}
}
