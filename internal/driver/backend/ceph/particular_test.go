package ceph

import (
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// What an image can do a subvolume cannot, and the other way round.
func TestCheckVolume(t *testing.T) {
	device := backend.Capability{Type: backend.Block, Mode: backend.SingleNodeWriter}
	shared := backend.Capability{Type: backend.Mount, Mode: backend.MultiNodeMultiWriter}
	for kind, good := range map[handle.Kind]backend.Capability{handle.RBD: device, handle.CephFS: shared} {
		id, err := handle.Volume(handle.Place{Kind: kind, Cluster: "ceph", Pool: "pool"}, "vol").ID()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []backend.Capability{device, shared} {
			err := (&Backend{}).CheckVolume(t.Context(), id, c)
			if c.Type == good.Type && err != nil || c.Type != good.Type && !fault.Invalid.Is(err) {
				t.Errorf("%s as %s: %v", kind, c, err)
			}
		}
	}
	if err := (&Backend{}).CheckVolume(t.Context(), backend.IDOf("other"), device); !fault.NotFound.Is(err) {
		t.Errorf("an id of others: %v, want not found", err)
	}
}
