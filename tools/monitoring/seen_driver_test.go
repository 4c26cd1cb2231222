package monitoring

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fault is how a volume fails: the parameter `fault` of its class, and the first part of its handle.
type fault string

const (
	works        fault = "works"
	createFails  fault = "create-fails"
	noAnswer     fault = "no-answer" // to CreateVolume: its outcome is not known
	deleteFails  fault = "delete-fails"
	expandFails  fault = "expand-fails"
	modifyFails  fault = "modify-fails"
	snapshotFail fault = "snapshot-fails"
	attachFails  fault = "attach-fails"
	mountFails   fault = "mount-fails"
	unmountFails fault = "unmount-fails"
	isFull       fault = "is-full"
	fillsUp      fault = "fills-up"
	unhealthy    fault = "unhealthy"
)

var faults = []fault{
	works, createFails, noAnswer, deleteFails, expandFails, modifyFails, snapshotFail, attachFails, mountFails,
	unmountFails, isFull, fillsUp, unhealthy,
}

// faultyDriver is a CSI driver whose volumes fail as their class says. It keeps nothing.
type faultyDriver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	name       string
	controller []csi.ControllerServiceCapability_RPC_Type
	orphan     bool // ListVolumes has a volume that no PersistentVolume names
	noCapacity atomic.Bool
	asked      atomic.Int64 // calls of NodeGetVolumeStats
}

// serve serves at a socket until the test ends.
func (d *faultyDriver) serve(t *testing.T, socket string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterNodeServer(server, d)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
}

func failing(id string, with fault) error {
	if of, _, _ := strings.Cut(id, "."); of == string(with) {
		return status.Errorf(codes.Internal, "this volume: %s", with)
	}
	return nil
}

func (d *faultyDriver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "v1"}, nil
}

func (d *faultyDriver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{
		Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE},
	}}}}, nil
}

func (d *faultyDriver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *faultyDriver) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, c := range d.controller {
		answer.Capabilities = append(answer.Capabilities,
			&csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
				Rpc: &csi.ControllerServiceCapability_RPC{Type: c},
			}})
	}
	return answer, nil
}

func (d *faultyDriver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	switch of := fault(r.GetParameters()["fault"]); of {
	case createFails:
		return nil, status.Error(codes.ResourceExhausted, "the pool is full")
	case noAnswer:
		return nil, status.Error(codes.Unavailable, "the array is rebooting")
	default:
		return &csi.CreateVolumeResponse{Volume: &csi.Volume{
			VolumeId: string(of) + "." + r.GetName(), CapacityBytes: r.GetCapacityRange().GetRequiredBytes(),
		}}, nil
	}
}

func (d *faultyDriver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, failing(r.GetVolumeId(), deleteFails)
}

func (d *faultyDriver) ControllerExpandVolume(
	_ context.Context, r *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	return &csi.ControllerExpandVolumeResponse{
		CapacityBytes: r.GetCapacityRange().GetRequiredBytes(),
	}, failing(r.GetVolumeId(), expandFails)
}

func (d *faultyDriver) ControllerModifyVolume(
	_ context.Context, r *csi.ControllerModifyVolumeRequest,
) (*csi.ControllerModifyVolumeResponse, error) {
	return &csi.ControllerModifyVolumeResponse{}, failing(r.GetVolumeId(), modifyFails)
}

func (d *faultyDriver) CreateSnapshot(
	_ context.Context, r *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	return nil, failing(r.GetSourceVolumeId(), snapshotFail)
}

func (d *faultyDriver) ControllerPublishVolume(
	_ context.Context, r *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	return &csi.ControllerPublishVolumeResponse{}, failing(r.GetVolumeId(), attachFails)
}

func (d *faultyDriver) ControllerUnpublishVolume(
	context.Context, *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (d *faultyDriver) ListVolumes(context.Context, *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	answer := &csi.ListVolumesResponse{}
	if d.orphan {
		answer.Entries = []*csi.ListVolumesResponse_Entry{{
			Volume: &csi.Volume{VolumeId: "made-by-hand", CapacityBytes: 1 << 30},
		}}
	}
	return answer, nil
}

func (d *faultyDriver) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if d.noCapacity.Load() {
		return nil, status.Error(codes.Internal, "the array does not say")
	}
	return &csi.GetCapacityResponse{AvailableCapacity: 1 << 40}, nil
}

// ControllerGetVolumeHealth says that a volume of the class lacks its image.
func (d *faultyDriver) ControllerGetVolumeHealth(
	_ context.Context, r *csi.ControllerGetVolumeHealthRequest,
) (*csi.ControllerGetVolumeHealthResponse, error) {
	answer := &csi.VolumeHealth{VolumeId: r.GetVolumeId()}
	if failing(r.GetVolumeId(), unhealthy) != nil {
		answer.HealthStatuses = []*csi.VolumeHealth_VolumeHealthEntry{{
			Status: csi.VolumeHealthErrorType_INACCESSIBLE, Reason: "ImageMissing", Message: "the image is missing",
		}}
	}
	return &csi.ControllerGetVolumeHealthResponse{VolumeHealth: answer}, nil
}

func (d *faultyDriver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "purser"}, nil
}

func (d *faultyDriver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	stats := &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_GET_VOLUME_STATS}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{
		Type: &csi.NodeServiceCapability_Rpc{Rpc: stats},
	}}}, nil
}

func (d *faultyDriver) NodePublishVolume(
	_ context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	return &csi.NodePublishVolumeResponse{}, failing(r.GetVolumeId(), mountFails)
}

func (d *faultyDriver) NodeUnpublishVolume(
	_ context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, failing(r.GetVolumeId(), unmountFails)
}

// NodeGetVolumeStats says that volumes are 2 percent free, or 14 percent and 2 less each time.
func (d *faultyDriver) NodeGetVolumeStats(
	_ context.Context, r *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	const total = 1_000_000
	free := int64(total / 2)
	switch of, _, _ := strings.Cut(r.GetVolumeId(), "."); fault(of) {
	case isFull:
		free = total / 50
	case fillsUp:
		free = max(total*14/100-total/50*d.asked.Add(1), 1)
	default:
	}
	usage := func(unit csi.VolumeUsage_Unit) *csi.VolumeUsage {
		return &csi.VolumeUsage{Unit: unit, Total: total, Available: free, Used: total - free}
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		usage(csi.VolumeUsage_BYTES), usage(csi.VolumeUsage_INODES),
	}}, nil
}
