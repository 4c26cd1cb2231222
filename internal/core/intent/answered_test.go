package intent

import (
	"testing"
	"time"
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
	if got := b.CallsEnd(entry(1).VolumeName); !got.Equal(ends) {
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
	if got := b.CallsEnd(entry(1).VolumeName); !got.IsZero() {
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
