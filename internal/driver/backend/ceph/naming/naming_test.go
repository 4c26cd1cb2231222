package naming

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// page is a book in memory.
type page struct {
	written map[string]string
	there   map[handle.Object]bool
	writes  int
	broken  error
}

func (p *page) Read(_ context.Context, key string) (string, error) { return p.written[key], p.broken }

func (p *page) Write(_ context.Context, key, id string) error {
	p.written[key] = id
	p.writes++
	return nil
}

func (p *page) Exists(_ context.Context, o handle.Object) (bool, error) { return p.there[o], p.broken }

// claim takes a name at once.
func claim(t *testing.T, book Book, o handle.Object) error {
	t.Helper()
	take, err := Claim(t.Context(), book, o)
	if err != nil {
		return err
	}
	return take()
}

func TestANameIsForOneSnapshot(t *testing.T) {
	place := handle.Place{Kind: handle.RBD, Cluster: "ceph", Pool: "rbd"}
	first := handle.Snapshot(handle.Volume(place, "a"), "nightly")
	second := handle.Snapshot(handle.Volume(place, "b"), "nightly")
	book := &page{written: map[string]string{}, there: map[handle.Object]bool{}}
	for range 2 { // the second is a repeated call, which need not write
		if err := claim(t, book, first); err != nil {
			t.Fatal(err)
		}
	}
	if book.writes != 1 {
		t.Errorf("%d writes, want 1", book.writes)
	}
	book.there[first] = true
	id, _ := first.ID()
	if err := claim(t, book, second); !fault.Incompatible.Is(err) || !strings.Contains(err.Error(), id.String()) {
		t.Errorf("a name that is taken: %v", err)
	}
	if err := claim(t, book, handle.Snapshot(handle.Volume(place, "b"), "weekly")); err != nil {
		t.Errorf("another name: %v", err)
	}
	// It was deleted, or its creation was interrupted.
	delete(book.there, first)
	if err := claim(t, book, second); err != nil {
		t.Errorf("a name that is free again: %v", err)
	}
	book.written[second.Snap] = "scribble"
	if err := claim(t, book, second); err != nil {
		t.Errorf("a line that cannot be read: %v", err)
	}
	book.broken = errors.New("no cluster")
	if err := claim(t, book, first); !errors.Is(err, book.broken) {
		t.Errorf("a book that cannot be read: %v", err)
	}
}
