package httpsource

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/populate/pod"
)

// namesIn returns the names in a folder.
func namesIn(t *testing.T, folder string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

// What an attempt of another source has left is removed: after a crash, and after an attempt whose data was not
// what the checksum says or changed.
func TestAnotherSourceClears(t *testing.T) {
	content := noise(1000)
	for name, first := range map[string]func(*Source, *origin){
		"killed": func(s *Source, o *origin) {
			o.cut, s.Pause = 300, func(context.Context, int) error { return errors.New("killed") }
		},
		"a wrong checksum": func(s *Source, _ *origin) { s.SHA256 = sumOf(nil) },
		"changed":          func(_ *Source, o *origin) { o.cut = 300 }, // without a mark nothing can be resumed
	} {
		t.Run(name, func(t *testing.T) {
			folder, o := t.TempDir(), &origin{content: content}
			s := sourceAt(serveTest(t, o))
			first(&s, o)
			if err := fill(t, s, folder); err == nil {
				t.Fatal("no error")
			}
			other := sourceAt(serveTest(t, &origin{content: noise(10)}))
			other.FileName = "g"
			if err := fill(t, other, folder); err != nil {
				t.Fatal(err)
			}
			if got := namesIn(t, folder); len(got) != 1 || got[0] != "g" {
				t.Errorf("the volume has %q", got)
			}
			mustHave(t, filepath.Join(folder, "g"), noise(10))
		})
	}
}

// The same source begins anew after a wrong checksum.
func TestBeginsAnewAfterAWrongChecksum(t *testing.T) {
	o := &origin{content: noise(1000), tag: `"one"`}
	s, folder := sourceAt(serveTest(t, o)), t.TempDir()
	s.SHA256 = sumOf(noise(500))
	if err := fill(t, s, folder); err == nil {
		t.Fatal("no error")
	}
	o.mu.Lock()
	o.content, o.tag = noise(500), `"two"`
	o.mu.Unlock()
	if err := fill(t, s, folder); err != nil {
		t.Fatal(err)
	}
	mustHave(t, filepath.Join(folder, "f"), noise(500))
	for _, got := range o.ranges() {
		if got != "" {
			t.Errorf("it asked for %q", got)
		}
	}
}

// Without a checksum, a part of a file is not continued with one of another query. With one, a signature in the
// query may change.
func TestQueryOfTheState(t *testing.T) {
	content := noise(1000)
	for sum, want := range map[string]string{"": "", sumOf(content): "bytes=300-"} {
		o := &origin{content: content, tag: `"one"`}
		url := serveTest(t, cutOnce{o})
		s, folder := sourceAt(url+"/?v=1"), t.TempDir()
		s.SHA256, s.Pause = sum, func(context.Context, int) error { return errors.New("killed") }
		if err := fill(t, s, folder); err == nil {
			t.Fatal("no error")
		}
		s.URL = url + "/?v=2"
		if err := fill(t, s, folder); err != nil {
			t.Fatal(err)
		}
		mustHave(t, filepath.Join(folder, "f"), content)
		if got := o.ranges(); len(got) != 2 || got[1] != want {
			t.Errorf("checksum %q: the second attempt asked for %q, want %q", sum, got, want)
		}
	}
}

// The time that a connection may be silent for does not run while the data is written.
func TestSlowWrites(t *testing.T) {
	s := sourceAt(serveTest(t, &origin{content: noise(1 << 20)}))
	s.Idle = time.Hour
	d, err := s.download(t.Context(), func(pod.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if n, err := d.Read(make([]byte, 10)); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	if d.body.silent.Stop() {
		t.Error("the timer runs while the data is written")
	}
}
