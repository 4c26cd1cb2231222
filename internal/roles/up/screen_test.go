package up

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/printable"
)

// The name and version of a driver, and errors, are written by other parties.
func TestScreenIsPrintable(t *testing.T) {
	const hostile = "driver\x1b[2J\u202e"
	var out bytes.Buffer
	s := newScreen(&out)
	s.step(hostile, time.Second)
	s.say("%s %s", s.paint(red, "x"), hostile)
	s.status(hostile)
	if text := out.String(); printable.Text(text) != text {
		t.Errorf("the screen shows %q", text)
	}
}

// A wait that takes long is mentioned, with its time, until its step ends: in lines without a terminal, in the last row
// of one.
func TestScreenSaysWhatItWaitsFor(t *testing.T) {
	var out bytes.Buffer
	s, began := newScreen(&out), time.Now()
	at := func(after time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.showWait(began.Add(after))
	}
	s.waiting("etcd\x1b[2J", began)
	for after := range 45 {
		at(time.Duration(after) * time.Second)
	}
	s.step("etcd", time.Second)
	at(time.Hour)
	want := "  … etcd\\x1b[2J, for 10s so far\n  … etcd\\x1b[2J, for 40s so far\n"
	if got, _, _ := strings.Cut(out.String(), "  ✓"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if strings.Count(out.String(), "\n") != 3 {
		t.Errorf("a wait is mentioned after its end: %q", out.String())
	}
	out.Reset()
	s = &screen{out: &out, terminal: true}
	s.waiting("etcd", began)
	at = func(after time.Duration) { s.mu.Lock(); defer s.mu.Unlock(); s.showWait(began.Add(after)) }
	at(2 * time.Second)
	s.step("etcd", time.Second)
	if got := out.String(); strings.Count(got, "\r\033[K") != 2 || !strings.Contains(got, "2s") || !strings.HasSuffix(got, "\n") {
		t.Errorf("%q", got)
	}
}
