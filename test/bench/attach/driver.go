package main

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/purser-csi/purser/test/scripted"
)

const (
	driverName = "attach.example"
	slowPrefix = "slow-" // of handles whose detach takes slowFor
	slowFor    = 5 * time.Second
)

// driver answers ControllerPublishVolume and ControllerUnpublishVolume at once, except for the detach
// of slow handles.
type driver struct {
	scripted.Driver

	publishes, unpublishes atomic.Int64
	server                 *grpc.Server
}

func serve(ctx context.Context, socket string) (d *driver, err error) {
	d = &driver{Driver: scripted.Driver{
		Name: driverName,
		Controller: []csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
			csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		},
	}}
	d.server, err = scripted.Serve(ctx, socket, d)
	return d, err
}

// ControllerPublishVolume implements csi.ControllerServer.
func (d *driver) ControllerPublishVolume(
	context.Context, *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	d.publishes.Add(1)
	return &csi.ControllerPublishVolumeResponse{}, nil
}

// ControllerUnpublishVolume implements csi.ControllerServer.
func (d *driver) ControllerUnpublishVolume(
	ctx context.Context, request *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	d.unpublishes.Add(1)
	if strings.HasPrefix(request.GetVolumeId(), slowPrefix) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(slowFor):
		}
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}
