package live

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/test/scripted"
)

// scriptedDriver is a CSI driver in this process that gives the answers of a test and counts its
// calls.
type scriptedDriver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	name         string
	capabilities []csi.ControllerServiceCapability_RPC_Type
	topology     bool   // volumes are reachable in parts of the cluster only
	key          string // of its topology; empty for that of placeOf
	node         string // the id and the topology in the answer of NodeGetInfo; empty for no answer
	expand       func(*csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error)
	publish      func(*csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error)
	unpublish    func(*csi.ControllerUnpublishVolumeRequest) error
	snapshot     func(*csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error)
	dropSnapshot func(*csi.DeleteSnapshotRequest)

	after func(ctx context.Context, method string) error // runs between the end of a call and its answer

	self  csi.ControllerServer // serves the controller's calls in place of this type; nil for this type
	nodes csi.NodeServer       // the same for the calls of the node

	mu    sync.Mutex
	calls map[string]int
}

// serve serves on a socket until the test ends, and returns its address.
func (d *scriptedDriver) serve(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(scripted.SocketDir(t), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(d.count))
	csi.RegisterIdentityServer(server, d)
	if d.self != nil {
		csi.RegisterControllerServer(server, d.self)
	} else {
		csi.RegisterControllerServer(server, d)
	}
	if d.nodes != nil {
		csi.RegisterNodeServer(server, d.nodes)
	} else {
		csi.RegisterNodeServer(server, d)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return "unix://" + socket
}

func (d *scriptedDriver) count(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	d.mu.Lock()
	if d.calls == nil {
		d.calls = map[string]int{}
	}
	method := filepath.Base(info.FullMethod)
	d.calls[method]++
	d.mu.Unlock()
	answer, err := handle(ctx, request)
	if err != nil || d.after == nil {
		return answer, err
	}
	return answer, d.after(ctx, method)
}

// called returns how often a method was called.
func (d *scriptedDriver) called(method string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[method]
}

func (d *scriptedDriver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	if d.node == "" {
		return nil, status.Error(codes.Unimplemented, "no node")
	}
	place := placeOf(d.node)
	if d.key != "" {
		place = &csi.Topology{Segments: map[string]string{d.key: d.node}}
	}
	return &csi.NodeGetInfoResponse{NodeId: d.node, AccessibleTopology: place}, nil
}

// placeOf returns the topology of the volumes of a node.
func placeOf(node string) *csi.Topology {
	return &csi.Topology{Segments: map[string]string{"example.com/node": node}}
}

func (d *scriptedDriver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *scriptedDriver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "v1"}, nil
}

func (d *scriptedDriver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
	capabilities := []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{Service: service}}}
	if d.topology {
		capabilities = append(capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
			Type: csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
		}}})
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: capabilities}, nil
}

func (d *scriptedDriver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, c := range d.capabilities {
		rpc := &csi.ControllerServiceCapability_RPC{Type: c}
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: rpc}})
	}
	return answer, nil
}

func (d *scriptedDriver) ControllerExpandVolume(_ context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	return d.expand(r)
}

func (d *scriptedDriver) ControllerPublishVolume(_ context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	return d.publish(r)
}

func (d *scriptedDriver) ControllerUnpublishVolume(_ context.Context, r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := d.unpublish(r); err != nil {
		return nil, err
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}
