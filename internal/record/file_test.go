package record

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/explain/inventory"
)

// A file is continued, what was deleted in between is gone, and a torn file is set aside.
func TestFile(t *testing.T) {
	for _, name := range []string{"r.jsonl", "r.jsonl.gz"} {
		path := filepath.Join(t.TempDir(), name)
		f, err := Create(path, Limits{}, start)
		if err != nil {
			t.Fatal(err)
		}
		clock := ticking()
		w := NewWriter(f, "test", clock)
		_ = w.Begin()
		w.Object(inventory.Seen{Object: claim(10, corev1.ClaimBound), Initial: true})
		_ = w.Listed(nil)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if f, err = Create(path, Limits{}, start); err != nil {
			t.Fatal(err)
		}
		w = NewWriter(f, "test", clock)
		_ = w.Begin()
		_ = w.Listed(nil)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Load(map[string][]byte{name: text})
		if err != nil || len(r.Notes) > 0 {
			t.Fatal(err, r.Notes)
		}
		if got := phases(t, r); got[0] != "Bound" || got[len(got)-1] != "none" {
			t.Errorf("%s: phases %v", name, got)
		}
		if err := os.WriteFile(path, text[:len(text)-5], 0o600); err != nil {
			t.Fatal(err)
		}
		torn, err := Load(map[string][]byte{name: text[:len(text)-5]})
		if err != nil || len(torn.Notes) == 0 {
			t.Errorf("%s: a torn record: %v %v", name, err, torn)
		}
		if f, err = Create(path, Limits{Size: 1}, start); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + ".torn-1"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = f.Close()
	}
}

// A continued file has the age of its oldest line, and a torn one replaces no other file.
func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl.gz")
	f, err := Create(path, Limits{}, start)
	if err != nil {
		t.Fatal(err)
	}
	written(t, f)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = Create(path, Limits{Age: time.Hour}, start.Add(2*time.Hour)); err != nil || !f.IsFull(start.Add(2*time.Hour)) {
		t.Errorf("the age of a continued file: %v, %s", err, f.began)
	}
	_ = f.Close()
	if err := os.WriteFile(path+".old", []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range mostTorn + 2 {
		if err := os.WriteFile(path, []byte("torn"), 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err = Create(path, Limits{}, start); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	if text, _ := os.ReadFile(path + ".old"); string(text) != "older" {
		t.Errorf("FILE.old is %q", text)
	}
	if all, _ := filepath.Glob(path + ".torn-*"); len(all) != mostTorn {
		t.Errorf("torn files: %v", all)
	}
}

// A file that is continued stays within half of the size, with the objects that exist: what it had becomes
// FILE.old. The same holds for the text that a reader takes.
func TestContinuedFile(t *testing.T) {
	const most = 40_000
	for _, tc := range []struct {
		name   string
		limits Limits
		text   int64
	}{
		{"r.jsonl", Limits{Size: most}, mostOfFile},
		{"r.jsonl.gz", Limits{Size: most / 8}, mostOfFile},
		{"text.jsonl.gz", Limits{}, most / 2},
	} {
		path := filepath.Join(t.TempDir(), tc.name)
		clock := ticking()
		part := func(first int, cycles int) {
			t.Helper()
			f, err := Create(path, tc.limits, start)
			if err != nil {
				t.Fatal(err)
			}
			f.most = tc.text
			w := NewWriter(f, "test", clock)
			_ = w.Begin()
			for i := range 30 {
				c := claim(first+i, corev1.ClaimPending)
				c.Name, c.UID = fmt.Sprint("c", i), types.UID(fmt.Sprint("u", i))
				w.Object(inventory.Seen{Object: c, Initial: true})
			}
			err = w.Listed(nil)
			for i := range cycles {
				c := claim(first+100+i, corev1.PersistentVolumeClaimPhase(fmt.Sprint(i)))
				c.Name, c.UID = "c1", "u1"
				w.Object(inventory.Seen{Object: c})
			}
			if err := errors.Join(err, w.Close()); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
		}
		for n := range 8 {
			part(1000*(n+1), 10)
			texts := map[string][]byte{}
			for _, name := range []string{path, path + ".old"} {
				text, err := os.ReadFile(name)
				if os.IsNotExist(err) {
					continue
				}
				// What is still to be compressed is not counted.
				if size := int64(len(text)); tc.limits.Size > 0 && size > tc.limits.Size/2+tc.limits.Size/50 {
					t.Errorf("%s: after %d parts %s has %d bytes", tc.name, n+1, filepath.Base(name), size)
				}
				lines, err := Lines(text)
				if err != nil || len(lines) == 0 || lines[0].Op != Begin {
					t.Fatalf("%s: %s: %v", tc.name, name, err)
				}
				texts[name] = text
			}
			r := newRecord()
			r.textLeft = tc.text
			if err := r.load(texts); err != nil || len(r.Notes) > 0 {
				t.Errorf("%s: after %d parts: %v %v", tc.name, n+1, err, r.Notes)
			}
			if n > 3 && len(texts) != 2 {
				t.Errorf("%s: nothing was set aside", tc.name)
			}
		}
		if left, _ := filepath.Glob(path + ".new"); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
	}
}

// Objects of more text than a reader takes are refused, before a reader finds out.
func TestMostText(t *testing.T) {
	f, err := Create(filepath.Join(t.TempDir(), "r.jsonl.gz"), Limits{}, start)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.most = 10_000
	w := NewWriter(f, "test", ticking())
	_ = w.Begin()
	for i := range 50 {
		c := claim(i+1, corev1.ClaimPending)
		c.Name = fmt.Sprint("c", i)
		w.Object(inventory.Seen{Object: c, Initial: true})
	}
	if err := w.Listed(nil); err == nil || !strings.Contains(err.Error(), "-n") {
		t.Errorf("%v", err)
	}
}

// Objects that leave no room in a file are refused, and no file is begun for each line.
func TestMaxSize(t *testing.T) {
	record := func(limit int64) (lines int, err error) {
		f, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), Limits{Size: limit}, start)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		w := NewWriter(f, "test", ticking())
		if err := w.Begin(); err != nil {
			return 0, err
		}
		for i := range 100 {
			c := claim(i+1, corev1.ClaimPending)
			c.Name = fmt.Sprint("c", i)
			w.Object(inventory.Seen{Object: c, Initial: true})
		}
		if err := w.Listed(nil); err != nil {
			return w.Lines(), err
		}
		for i := range 500 {
			w.Object(inventory.Seen{Object: claim(200+i, corev1.PersistentVolumeClaimPhase(fmt.Sprint(i)))})
			if err := w.Flush(); err != nil {
				return w.Lines(), err
			}
		}
		return w.Lines(), nil
	}
	if lines, err := record(60_000); lines != 102 || err == nil || !strings.Contains(err.Error(), "--max-size=60000") {
		t.Errorf("objects of more than the size: %d lines, %v", lines, err)
	}
	if lines, err := record(150_000); err != nil || lines < 702 || lines > 2000 {
		t.Errorf("%d lines, %v", lines, err)
	}
}

// Text that is too large is refused with an error, and a long line alone is left out.
func TestBounds(t *testing.T) {
	out := &buffer{}
	written(t, out)
	text := out.Bytes()
	for _, tc := range []struct {
		text, contents int64
		want           string
	}{
		{int64(len(text)), 1 << 20, ""},
		{int64(len(text)) - 1, 1 << 20, "text has more than"},
		{int64(len(text)), 500, "versions of the objects take more than"},
	} {
		r := newRecord()
		r.textLeft, r.contentsLeft = tc.text, tc.contents
		err := r.load(map[string][]byte{"r": text})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%d and %d bytes: %v, want %q", tc.text, tc.contents, err, tc.want)
		}
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	long := append([]byte(nil), lines[0]...)
	long = append(long, bytes.Repeat([]byte("x"), mostOfLine+1)...)
	long = append(long, '\n')
	r, err := Load(map[string][]byte{"r": append(long, bytes.Join(lines[1:], nil)...)})
	if err != nil || len(r.Notes) != 1 || len(r.index.Changes()) == 0 || !strings.Contains(r.Notes[0], "line 2 has more than") {
		t.Errorf("a long line: %v, %+v", err, r)
	}
}
