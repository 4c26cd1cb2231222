package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/purser-csi/purser/test/scripted"
)

// instant is a driver whose volumes are names and cost no time, so that what is measured is
// everything else.
type instant struct {
	scripted.Driver
	csi.UnimplementedNodeServer

	server *grpc.Server

	mu      sync.Mutex
	volumes map[string]int64 // bytes, by name, which is the handle too
}

var _ csi.NodeServer = (*instant)(nil) // [scripted.Serve] serves it as one

// instantName is the name that the driver gives itself.
const instantName = "instant.bench.purser"

// serveInstant answers at a socket until close.
func serveInstant(ctx context.Context, socket string) (*instant, error) {
	d := &instant{volumes: map[string]int64{}, Driver: scripted.Driver{
		Name:       instantName,
		Controller: []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME},
	}}
	server, err := scripted.Serve(ctx, socket, d)
	if err != nil {
		return nil, fmt.Errorf("driver: %w", err)
	}
	d.server = server
	return d, nil
}

func (d *instant) close() { d.server.Stop() }

// left is the number of volumes that are not deleted.
func (d *instant) left() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.volumes), nil
}

func (d *instant) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "bench"}, nil
}

func (d *instant) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	size := r.GetCapacityRange().GetRequiredBytes()
	d.volumes[r.GetName()] = size
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: r.GetName(), CapacityBytes: size}}, nil
}

func (d *instant) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.GetVolumeId() == "" {
		return nil, errors.New("no volume id")
	}
	delete(d.volumes, r.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, nil
}
