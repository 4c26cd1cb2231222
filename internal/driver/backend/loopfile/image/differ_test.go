package image

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type span struct{ From, To int64 }

func spans(into *[]span) func(from, to int64) error {
	return func(from, to int64) error {
		*into = append(*into, span{from, to})
		return nil
	}
}

func open(t *testing.T, path string) *Source {
	t.Helper()
	source, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return source
}

func changes(t *testing.T, base, target string, from int64) (found []span) {
	t.Helper()
	if err := open(t, target).VisitChanges(t.Context(), open(t, base), from, spans(&found)); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestVisitData(t *testing.T) {
	path := sparse(t, 64*mebi)
	put(t, path, 8*mebi, bytes.Repeat([]byte("x"), mebi))
	put(t, path, 64*mebi-4096, bytes.Repeat([]byte("y"), 4096))
	for from, want := range map[int64][]span{
		0:            {{8 * mebi, 9 * mebi}, {64*mebi - 4096, 64 * mebi}},
		8*mebi + 100: {{8*mebi + 100, 9 * mebi}, {64*mebi - 4096, 64 * mebi}},
		9 * mebi:     {{64*mebi - 4096, 64 * mebi}},
		64 * mebi:    nil,
	} {
		var got []span
		if err := open(t, path).VisitData(t.Context(), from, spans(&got)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("from %d: %s", from, diff)
		}
	}
}

func TestVisitChanges(t *testing.T) {
	const k = 4096
	content := bytes.Repeat([]byte("content."), 3*mebi/8)
	tests := map[string]struct {
		change func(t *testing.T, path string)
		want   []span
	}{
		"nothing":                 {func(*testing.T, string) {}, nil},
		"the same written again":  {func(t *testing.T, p string) { put(t, p, 8*mebi, content) }, nil},
		"zeros in a hole":         {func(t *testing.T, p string) { put(t, p, 40*mebi, make([]byte, mebi)) }, nil},
		"a byte in a hole":        {func(t *testing.T, p string) { put(t, p, 40*mebi+k+7, []byte{1}) }, []span{{40*mebi + k, 40*mebi + 2*k}}},
		"the last byte":           {func(t *testing.T, p string) { put(t, p, 64*mebi-1, []byte{1}) }, []span{{64*mebi - k, 64 * mebi}}},
		"over the edge of blocks": {func(t *testing.T, p string) { put(t, p, 9*mebi-1, []byte("12")) }, []span{{9*mebi - k, 9 * mebi}, {9 * mebi, 9*mebi + k}}},
		"zeros over content":      {func(t *testing.T, p string) { put(t, p, 9*mebi, make([]byte, 2*k)) }, []span{{9 * mebi, 9*mebi + 2*k}}},
		"made blank": {func(t *testing.T, p string) {
			if err := Erase(p); err != nil {
				t.Fatal(err)
			}
		}, []span{{8 * mebi, 9 * mebi}, {9 * mebi, 10 * mebi}, {10 * mebi, 11 * mebi}}},
		"grown": {func(t *testing.T, p string) {
			if err := Resize(p, 65*mebi+3); err != nil {
				t.Fatal(err)
			}
			put(t, p, 65*mebi+2, []byte{1})
		}, []span{{65 * mebi, 65*mebi + 3}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			base, target := sparse(t, 64*mebi), sparse(t, 64*mebi)
			put(t, base, 8*mebi, content)
			put(t, target, 8*mebi, content)
			test.change(t, target)
			if diff := cmp.Diff(test.want, changes(t, base, target, 0)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestChangesFromAnOffset(t *testing.T) {
	base, target := sparse(t, 8*mebi), sparse(t, 8*mebi)
	put(t, target, mebi, bytes.Repeat([]byte("x"), 3*4096))
	want := []span{{mebi + 4096 + 5, mebi + 3*4096}}
	if diff := cmp.Diff(want, changes(t, base, target, mebi+4096+5)); diff != "" {
		t.Error(diff)
	}
	if got := changes(t, base, target, 8*mebi); len(got) > 0 {
		t.Errorf("from the end: %v", got)
	}
}

func TestACancelledComparisonEnds(t *testing.T) {
	base, target := sparse(t, mebi), sparse(t, mebi)
	put(t, target, 0, []byte{1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := open(t, target).VisitChanges(ctx, open(t, base), 0, func(int64, int64) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("VisitChanges: %v, want cancelled", err)
	}
	enough := errors.New("enough")
	err = open(t, target).VisitChanges(t.Context(), open(t, base), 0, func(int64, int64) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("VisitChanges: %v, want what the visit said", err)
	}
}

// A copy of the base into which the visited parts of the target are put is the
// target: nothing that changed is missing.
func TestAnIncrementalCopyIsComplete(t *testing.T) {
	dir := t.TempDir()
	base, target := filepath.Join(dir, "base"), filepath.Join(dir, "target")
	rapid.Check(t, func(r *rapid.T) {
		sizes := rapid.Int64Range(1, 3*mebi)
		was, is := drawImage(r, base, sizes.Draw(r, "base")), drawImage(r, target, sizes.Draw(r, "target"))
		from := rapid.Int64Range(0, int64(len(is))).Draw(r, "from")
		got := make([]byte, len(is))
		copy(got, was)
		visit := func(from, to int64) error {
			copy(got[from:to], is[from:to])
			return nil
		}
		b, err := Open(base)
		if err != nil {
			r.Fatal(err)
		}
		defer b.Close()
		s, err := Open(target)
		if err != nil {
			r.Fatal(err)
		}
		defer s.Close()
		if err := s.VisitChanges(t.Context(), b, from, visit); err != nil {
			r.Fatal(err)
		}
		if !slices.Equal(got[from:], is[from:]) {
			r.Fatalf("from %d: the copy is another one", from)
		}
	})
}

// drawImage makes an image with some writes in it, and gives its content.
func drawImage(r *rapid.T, path string, size int64) []byte {
	file, err := os.Create(path)
	if err != nil {
		r.Fatal(err)
	}
	defer file.Close()
	content := make([]byte, size)
	for range rapid.IntRange(0, 6).Draw(r, "writes") {
		at := rapid.Int64Range(0, size-1).Draw(r, "at")
		length := min(rapid.Int64Range(1, 20000).Draw(r, "length"), size-at)
		part := bytes.Repeat([]byte{rapid.Byte().Draw(r, "byte")}, int(length))
		copy(content[at:], part)
		if _, err := file.WriteAt(part, at); err != nil {
			r.Fatal(err)
		}
	}
	if err := file.Truncate(size); err != nil {
		r.Fatal(err)
	}
	return content
}
