package live

import (
	"context"
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/test/rolestest"
)

// listingDisks lists its volumes with the nodes that they are published to.
type listingDisks struct{ *disks }

func (d listingDisks) ListVolumes(context.Context, *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	d.at.Lock()
	defer d.at.Unlock()
	answer := &csi.ListVolumesResponse{}
	for volume, node := range d.has {
		answer.Entries = append(answer.Entries, &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: volume}, Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: []string{node}},
		})
	}
	return answer, nil
}

// compared waits until a comparison has started and ended after the call.
func (d listingDisks) compared(t *testing.T) {
	t.Helper()
	before := d.called("ListVolumes")
	rolestest.Eventually(t, "two more comparisons", func() error {
		if n := d.called("ListVolumes") - before; n < 2 {
			return fmt.Errorf("there were %d", n)
		}
		return nil
	})
}

// AT-L4, AT-L5, AT-L7, AT-H5, AT-H6: a volume that was unpublished without the attacher is
// published again, with retries, and no other volume is published.
func TestAttacherComparesWithTheDriver(t *testing.T) {
	d := listingDisks{newDisks(t)}
	d.capabilities = append(d.capabilities, csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES)
	d.self = d
	p := d.attaching(t, "--reconcile-sync=50ms", "--retry-interval-start=1h", "--retry-interval-max=1h")
	lost, kept := p.attachment("lost", d.name), p.attachment("kept", d.name)
	await(p, "attached", lost, isAttached)
	await(p, "attached", kept, isAttached)
	d.compared(t)
	if n := d.called("ControllerPublishVolume"); n != 2 {
		t.Errorf("AT-L8: %d calls for two volumes", n)
	}
	d.at.Lock()
	delete(d.has, "handle^lost")
	d.err = status.Error(codes.Internal, "not now")
	d.at.Unlock()
	rolestest.Eventually(t, "three attempts that fail", func() error {
		if n := d.called("ControllerPublishVolume"); n < 5 {
			return fmt.Errorf("there were %d calls", n)
		}
		return nil
	})
	d.at.Lock()
	d.err = nil
	d.at.Unlock()
	rolestest.Eventually(t, "the volume is published again", func() error {
		d.at.Lock()
		defer d.at.Unlock()
		if d.has["handle^lost"] != "i-1" {
			return fmt.Errorf("published: %v", d.has)
		}
		return nil
	})
	p.attachedWithoutError(lost)
	// A comparison that began before the volume was published may still lead to a call.
	rolestest.Eventually(t, "no call after all is as it should be", func() error {
		calls := d.called("ControllerPublishVolume")
		d.compared(t)
		if n := d.called("ControllerPublishVolume"); n != calls {
			return fmt.Errorf("%d calls more", n-calls)
		}
		return nil
	})
}

func (p liveCluster) attachedWithoutError(va *storagev1.VolumeAttachment) {
	p.Helper()
	await(p, "attached, and the error is taken back", va, func(va *storagev1.VolumeAttachment) bool {
		return va.Status.Attached && va.Status.AttachError == nil
	})
}
