package ceph

import (
	"sync"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Each state directory is a node. Both may give way to the other; both having
// it is what must not be.
func TestTwoNodesAtTheSameMoment(t *testing.T) {
	here, there := newRig(t), newRig(t)
	volume := here.create(here.request("contested", images))
	for range 3 {
		var nodes sync.WaitGroup
		failures := make([]error, 2)
		for i, r := range []*rig{here, there} {
			staging := backend.Staging{Volume: volume.ID, Path: r.stagingPath(volume.ID), Capability: mounted}
			ctx := r.ctx()
			nodes.Go(func() { failures[i] = r.Stage(ctx, staging) })
		}
		nodes.Wait()
		staged := 0
		for _, err := range failures {
			if err == nil {
				staged++
			} else if !fault.InUse.Is(err) {
				t.Errorf("neither staged nor in use: %v", err)
			}
		}
		if staged > 1 {
			t.Fatal("one image is mounted twice")
		}
		t.Logf("staged on %d nodes: %v", staged, failures)
		here.unstage(volume.ID)
		there.unstage(volume.ID)
	}
}
