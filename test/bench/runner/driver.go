package runner

import (
	"context"
	"errors"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/purser-csi/purser/test/scripted"
)

// Driver answers at once, so that all that is measured is the time of the other programs. Its volumes are
// names.
type Driver struct {
	scripted.Driver

	mu      sync.Mutex
	volumes map[string]bool
}

// NewDriver returns a driver with these capabilities.
func NewDriver(name string, can ...csi.ControllerServiceCapability_RPC_Type) *Driver {
	return &Driver{Driver: scripted.Driver{Name: name, Controller: can}, volumes: map[string]bool{}}
}

// Left is the number of volumes that are not deleted.
func (d *Driver) Left() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.volumes)
}

// CreateVolume implements csi.ControllerServer.
func (d *Driver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.volumes[r.GetName()] = true
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: r.GetName(), CapacityBytes: r.GetCapacityRange().GetRequiredBytes(),
		ContentSource: r.GetVolumeContentSource(),
	}}, nil
}

// DeleteVolume implements csi.ControllerServer.
func (d *Driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.GetVolumeId() == "" {
		return nil, errors.New("no volume id")
	}
	delete(d.volumes, r.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, nil
}

// ControllerPublishVolume implements csi.ControllerServer.
func (d *Driver) ControllerPublishVolume(
	context.Context, *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	return &csi.ControllerPublishVolumeResponse{}, nil
}

// ControllerUnpublishVolume implements csi.ControllerServer.
func (d *Driver) ControllerUnpublishVolume(
	context.Context, *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// ControllerExpandVolume implements csi.ControllerServer. It leaves nothing to the node.
func (d *Driver) ControllerExpandVolume(
	_ context.Context, r *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
}

// CreateSnapshot implements csi.ControllerServer.
func (d *Driver) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId: "of-" + r.GetName(), SourceVolumeId: r.GetSourceVolumeId(), SizeBytes: 1 << 30, ReadyToUse: true,
		CreationTime: timestamppb.Now(),
	}}, nil
}

// DeleteSnapshot implements csi.ControllerServer.
func (d *Driver) DeleteSnapshot(context.Context, *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	return &csi.DeleteSnapshotResponse{}, nil
}
