package main

import (
	"context"
	"maps"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/purser-csi/purser/test/scripted"
)

const driverName = "snapshot.example"

// driver answers at once, and counts the calls by method.
type driver struct {
	scripted.Driver

	mu     sync.Mutex
	calls  map[string]int
	server *grpc.Server
}

func serve(ctx context.Context, socket string) (d *driver, err error) {
	d = &driver{calls: map[string]int{}, Driver: scripted.Driver{
		Name: driverName,
		Controller: []csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		},
	}}
	d.server, err = scripted.Serve(ctx, socket, d)
	return d, err
}

func (d *driver) count(method string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[method]++
}

// counted returns the calls so far.
func (d *driver) counted() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.calls)
}

// CreateSnapshot implements csi.ControllerServer.
func (d *driver) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	d.count("CreateSnapshot")
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{
		SnapshotId: "of-" + r.GetName(), SourceVolumeId: r.GetSourceVolumeId(), SizeBytes: 1 << 30, ReadyToUse: true,
		CreationTime: timestamppb.Now(),
	}}, nil
}

// DeleteSnapshot implements csi.ControllerServer.
func (d *driver) DeleteSnapshot(context.Context, *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	d.count("DeleteSnapshot")
	return &csi.DeleteSnapshotResponse{}, nil
}

// CreateVolume implements csi.ControllerServer.
func (d *driver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d.count("CreateVolume")
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: "vol-" + r.GetName(), CapacityBytes: r.GetCapacityRange().GetRequiredBytes(),
		ContentSource: r.GetVolumeContentSource(),
	}}, nil
}

// DeleteVolume implements csi.ControllerServer.
func (d *driver) DeleteVolume(context.Context, *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.count("DeleteVolume")
	return &csi.DeleteVolumeResponse{}, nil
}
