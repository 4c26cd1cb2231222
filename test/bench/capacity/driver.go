package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/purser-csi/purser/test/scripted"
)

const driverName = "capacity.example"

// driver answers GetCapacity. A tenth of the answers differs from the one before.
type driver struct {
	scripted.Driver

	delay  time.Duration
	calls  atomic.Int64
	server *grpc.Server
}

func serve(ctx context.Context, socket string, delay time.Duration) (d *driver, err error) {
	d = &driver{delay: delay, Driver: scripted.Driver{
		Name:   driverName,
		Plugin: []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS},
		Controller: []csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		},
	}}
	d.server, err = scripted.Serve(ctx, socket, d)
	return d, err
}

func (d *driver) GetCapacity(ctx context.Context, _ *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(d.delay):
	}
	const different = 10
	free := int64(100 << 30)
	if n := d.calls.Add(1); n%different == 0 {
		free += n << 20
	}
	return &csi.GetCapacityResponse{AvailableCapacity: free}, nil
}
