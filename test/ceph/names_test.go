package ceph

import (
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// CreateSnapshotRequest.name: ALREADY_EXISTS for another source. Ids of
// snapshots begin with the source, so this needs what is written elsewhere.
func TestANameIsForOneSnapshot(t *testing.T) {
	for kind, parameters := range map[string]map[string]string{"images": images, "subvolumes": subvolumes} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t)
			first, second := r.create(r.request("first", parameters)), r.create(r.request("second", parameters))
			snapshot := r.snapshot("nightly", first.ID)
			id, err := r.SnapshotID("nightly", second.ID)
			if err != nil {
				t.Fatal(err)
			}
			request := backend.SnapshotRequest{ID: id, Name: "nightly", Source: second.ID}
			if _, err := r.CreateSnapshot(r.ctx(), request); !fault.Incompatible.Is(err) {
				t.Errorf("the same name for another volume: %v, want incompatible", err)
			}
			if err := r.DeleteSnapshot(r.ctx(), snapshot.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := r.CreateSnapshot(r.ctx(), request); err != nil {
				t.Errorf("after the first is deleted: %v", err)
			}
			if err := r.DeleteSnapshot(r.ctx(), id); err != nil {
				t.Error(err)
			}
		})
	}
}
