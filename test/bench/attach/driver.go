package main

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

const (
	driverName = "attach.example"
	slowPrefix = "slow-" // of handles whose detach takes slowFor
	slowFor    = 5 * time.Second
)

// driver answers ControllerPublishVolume and ControllerUnpublishVolume at once, except for the detach
// of slow handles.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer

	publishes, unpublishes atomic.Int64
	server                 *grpc.Server
}

func serve(socket string) (*driver, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	d := &driver{server: grpc.NewServer()}
	csi.RegisterIdentityServer(d.server, d)
	csi.RegisterControllerServer(d.server, d)
	go func() { _ = d.server.Serve(listener) }() // ends with the process
	return d, nil
}

// Probe implements csi.IdentityServer.
func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// GetPluginInfo implements csi.IdentityServer.
func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

// GetPluginCapabilities implements csi.IdentityServer.
func (d *driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
		Type: csi.PluginCapability_Service_CONTROLLER_SERVICE,
	}}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{Type: service}}}, nil
}

// ControllerGetCapabilities implements csi.ControllerServer.
func (d *driver) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
	} {
		rpc := &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{Type: rpc})
	}
	return answer, nil
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
