package intent

import (
	"testing"
	"time"
)

// H-14: the handle of a volume that is to be deleted is in the text, until the request is repeated.
func TestHandleIsRecorded(t *testing.T) {
	for _, tc := range []struct {
		row        string
		edit       func(*Book)
		dirty      bool
		unwritten  bool
		handle     string // of uid-1, as a new leader reads it
		discarding bool
	}{
		{"no volume is known", func(*Book) {}, false, false, "", false},
		{"about to be deleted", func(b *Book) { b.Discard("uid-1", "vol 1") }, true, true, "vol 1", true},
		{"to be deleted later", func(b *Book) { b.Note("uid-1", Known{Handle: "vol 1"}) }, true, false, "vol 1", true},
		{"the deletion failed", func(b *Book) {
			b.Discard("uid-1", "vol 1")
			_, _, _ = b.Take()
			b.Note("uid-1", Known{Handle: "vol 1"})
		}, false, false, "vol 1", true},
		{"another volume", func(b *Book) { b.Discard("uid-1", "vol 1"); b.Discard("uid-1", "vol 2") }, true, true, "vol 2", true},
		{"a final error has no handle", func(b *Book) { b.Note("uid-1", Known{FinalErrors: 1}) }, false, false, "", false},
		{"the request is repeated", func(b *Book) {
			b.Discard("uid-1", "vol 1")
			_, _, _ = b.Take()
			_ = b.Add(entry(1))
		}, true, true, "", true},
		{"the claim has no entry", func(b *Book) { b.Discard("uid-9", "vol 1"); b.Note("uid-9", Known{Handle: "vol 1"}) }, false, false, "", false},
	} {
		b := NewBook()
		mustAdd(t, b, entry(1))
		mustAdd(t, b, entry(2))
		take(t, b)
		tc.edit(b)
		if b.IsDirty() != tc.dirty || b.IsUnwritten("uid-1") != tc.unwritten {
			t.Errorf("%s: dirty %t, unwritten %t", tc.row, b.IsDirty(), b.IsUnwritten("uid-1"))
		}
		text := take(t, b)
		got := mustDecode(t, text)
		if len(got) != 2 || got[0].Known.Handle != tc.handle || got[0].Discarding != tc.discarding || got[1].Known.Handle != "" {
			t.Errorf("%s: a new leader reads %+v", tc.row, got)
		}
		next := NewBook()
		next.Load(got, time.Time{})
		if again := take(t, next); again != text {
			t.Errorf("%s: what was taken over is written otherwise", tc.row)
		}
	}
}

// H-14: a handle belongs to the request that was recorded last, which is the one whose response had
// it. DeleteVolume gets the secrets of that request, also when it is an older one that was repeated
// after the driver refused the newest.
func TestHandleHasTheSecretsOfItsRequest(t *testing.T) {
	older, newer := entry(1), entry(1)
	newer.Request.Parameters["tier"], newer.Secrets = "tape", secrets(2)
	sameButSecrets := entry(1)
	sameButSecrets.Secrets = secrets(3)
	for _, tc := range []struct {
		row  string
		sent []Entry
		want Entry // the one whose secrets are used
	}{
		{"the newest was answered", []Entry{older, newer}, newer},
		{"the replaced one was repeated and answered", []Entry{older, newer, older}, older},
		{"the class names another secret for the same request", []Entry{older, sameButSecrets}, sameButSecrets},
	} {
		for what, record := range map[string]func(*Book){
			"deleted at once": func(b *Book) { b.Discard("uid-1", "vol 1") },
			"deleted later":   func(b *Book) { b.Note("uid-1", Known{Handle: "vol 1"}) },
		} {
			b := NewBook()
			for _, e := range tc.sent {
				mustAdd(t, b, e)
				b.Note("uid-1", Known{FinalErrors: 1})
			}
			record(b)
			here, _ := b.Get("uid-1")
			next := mustDecode(t, take(t, b))
			if here.Known.Handle != "vol 1" || here.Secrets != tc.want.Secrets {
				t.Errorf("%s, %s: %q with the secrets %v", tc.row, what, here.Known.Handle, here.Secrets)
			}
			if len(next) != 1 || next[0].Known.Handle != "vol 1" || next[0].Secrets != tc.want.Secrets {
				t.Errorf("%s, %s: a new leader reads %+v", tc.row, what, next)
			}
		}
	}
}

// Handles count for the size of the text. Where there is no room for all of them the text has none:
// without it no request would be recorded, and no deletion could begin.
func TestHandlesAreBounded(t *testing.T) {
	b := NewBook()
	for n := range 20 {
		mustAdd(t, b, noise(n, 8<<10))
	}
	small := len(take(t, b))
	handle := func(n, bytes int) string { return noise(n, bytes).Request.GetParameters()["pad"] }
	b.Discard("uid-1", handle(1, 2<<10))
	if text := take(t, b); len(text) < small+1<<10 || b.Size() != len(text) {
		t.Errorf("%d bytes, before that %d; the book says %d", len(text), small, b.Size())
	}
	for n := range 20 {
		b.Discard(entry(n).UID, handle(n, 8<<10))
	}
	text := take(t, b)
	got := mustDecode(t, text)
	if len(text) > mostText || len(got) != 20 {
		t.Fatalf("%d entries in %d bytes", len(got), len(text))
	}
	for _, e := range got {
		if e.Known.Handle != "" || !e.Discarding {
			t.Errorf("%s: discarding %t, with a handle of %d bytes", e.UID, e.Discarding, len(e.Known.Handle))
		}
	}
	if e, _ := b.Get("uid-1"); e.Known.Handle == "" {
		t.Error("this process forgot the handle")
	}
}
