package scripted

import (
	"context"
	"net"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// Driver answers Probe, and says its name and its capabilities. A test's driver embeds it and adds
// the calls that it serves; all others are unimplemented.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer

	Name       string
	Plugin     []csi.PluginCapability_Service_Type // beside CONTROLLER_SERVICE
	Controller []csi.ControllerServiceCapability_RPC_Type
}

// Server is a driver that can be served. One with a node service is a csi.NodeServer as well, one that
// takes groups a csi.GroupControllerServer, and one that knows changed blocks a csi.SnapshotMetadataServer.
type Server interface {
	csi.IdentityServer
	csi.ControllerServer
}

// Serve answers at a socket until the returned server is stopped.
func Serve(ctx context.Context, socket string, d Server, options ...grpc.ServerOption) (*grpc.Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(options...)
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	if node, ok := d.(csi.NodeServer); ok {
		csi.RegisterNodeServer(server, node)
	}
	if group, ok := d.(csi.GroupControllerServer); ok {
		csi.RegisterGroupControllerServer(server, group)
	}
	if metadata, ok := d.(csi.SnapshotMetadataServer); ok {
		csi.RegisterSnapshotMetadataServer(server, metadata)
	}
	go func() { _ = server.Serve(listener) }() // ends with the server
	return server, nil
}

// Probe implements csi.IdentityServer.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil // without a word about readiness, which means that it is ready
}

// GetPluginInfo implements csi.IdentityServer.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.Name, VendorVersion: "v1"}, nil
}

// GetPluginCapabilities implements csi.IdentityServer.
func (d *Driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	answer := &csi.GetPluginCapabilitiesResponse{}
	all := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	for _, t := range append(all, d.Plugin...) {
		service := &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}
		answer.Capabilities = append(answer.Capabilities, &csi.PluginCapability{Type: service})
	}
	return answer, nil
}

// ControllerGetCapabilities implements csi.ControllerServer.
func (d *Driver) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range d.Controller {
		rpc := &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{Type: rpc})
	}
	return answer, nil
}
