package ceph

import (
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// A snapshot of a subvolume has no blocks; no cluster is asked for that.
func TestSurveysAreOfImages(t *testing.T) {
	snapshotIn := func(p handle.Place, volume, name string) backend.ID {
		id, err := handle.Snapshot(handle.Volume(p, volume), name).ID()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	never := func(backend.Extent) error { return nil }
	b := &Backend{}
	files := snapshotIn(slow, "vol", "snap")
	if err := b.Allocated(t.Context(), files, 0, never); !fault.Unsupported.Is(err) {
		t.Errorf("Allocated: %v, want unsupported", err)
	}
	if err := b.Changed(t.Context(), files, files, 0, never); !fault.Unsupported.Is(err) {
		t.Errorf("Changed: %v, want unsupported", err)
	}
	if err := b.Allocated(t.Context(), backend.IDOf("other"), 0, never); !fault.NotFound.Is(err) {
		t.Errorf("an id of others: %v, want not found", err)
	}
}
