package reports

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// fakeVolume is a volume of the driver.
type fakeVolume struct {
	id, name string // no name: made by a script
	bytes    int64
	source   *csi.VolumeContentSource
	nodes    []string // that it is published to
}

const defaultBytes = 1 << 30

// sizeOf returns the size that a request asks for, in whole mebibytes.
func sizeOf(r *csi.CapacityRange) (int64, error) {
	const mebi = 1 << 20
	bytes, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	if bytes == 0 {
		bytes = defaultBytes
		if limit > 0 {
			bytes = min(bytes, limit)
		}
	}
	if rest := bytes % mebi; rest != 0 && bytes-rest <= (1<<62) {
		bytes += mebi - rest
	}
	if limit > 0 && bytes > limit {
		return 0, status.Errorf(codes.OutOfRange, "%d bytes are more than the limit of %d", bytes, limit)
	}
	return bytes, nil
}

// CreateVolume implements csi.ControllerServer.
func (d *fakeDriver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	owner := r.GetParameters()[ownerParameter]
	if owner == "" {
		owner = "unknown"
	}
	bytes, err := sizeOf(r.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[owner+"."+r.GetName()]
	if v == nil {
		if err := d.checkSource(r.GetVolumeContentSource()); err != nil {
			return nil, err
		}
		v = &fakeVolume{id: owner + "." + r.GetName(), name: r.GetName(), bytes: bytes, source: r.GetVolumeContentSource()}
		d.volumes[v.id] = v
	}
	if v.bytes < r.GetCapacityRange().GetRequiredBytes() || !proto.Equal(v.source, r.GetVolumeContentSource()) {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s has %d bytes or another source", v.id, v.bytes)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: v.id, CapacityBytes: v.bytes, ContentSource: v.source}}, nil
}

func (d *fakeDriver) checkSource(source *csi.VolumeContentSource) error {
	if id := source.GetVolume().GetVolumeId(); id != "" && d.volumes[id] == nil {
		return status.Errorf(codes.NotFound, "source volume %s does not exist", id)
	}
	if id := source.GetSnapshot().GetSnapshotId(); id != "" && d.snapshots[id] == nil {
		return status.Errorf(codes.NotFound, "source snapshot %s does not exist", id)
	}
	return nil
}

// DeleteVolume implements csi.ControllerServer.
func (d *fakeDriver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.volumes[r.GetVolumeId()]; v != nil && len(v.nodes) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is published to %v", v.id, v.nodes)
	}
	delete(d.volumes, r.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, nil
}

// volume returns a volume, or the error for a call about it.
func (d *fakeDriver) volume(id string) (*fakeVolume, error) {
	if v := d.volumes[id]; v != nil {
		return v, nil
	}
	return nil, status.Errorf(codes.NotFound, "volume %s does not exist", id)
}

// ValidateVolumeCapabilities implements csi.ControllerServer.
func (d *fakeDriver) ValidateVolumeCapabilities(
	_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.volume(r.GetVolumeId()); err != nil {
		return nil, err
	}
	confirmed := &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.GetVolumeCapabilities()}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: confirmed}, nil
}

// ControllerPublishVolume implements csi.ControllerServer.
func (d *fakeDriver) ControllerPublishVolume(
	_ context.Context, r *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if !slices.Contains(v.nodes, r.GetNodeId()) {
		v.nodes = append(v.nodes, r.GetNodeId())
	}
	return &csi.ControllerPublishVolumeResponse{}, nil
}

// ControllerUnpublishVolume implements csi.ControllerServer.
func (d *fakeDriver) ControllerUnpublishVolume(
	_ context.Context, r *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.volumes[r.GetVolumeId()]; v != nil {
		v.nodes = slices.DeleteFunc(v.nodes, func(node string) bool { return node == r.GetNodeId() || r.GetNodeId() == "" })
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// ControllerExpandVolume implements csi.ControllerServer.
func (d *fakeDriver) ControllerExpandVolume(
	_ context.Context, r *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	bytes, err := sizeOf(r.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	v.bytes = max(v.bytes, bytes)
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.bytes}, nil
}

// ControllerModifyVolume implements csi.ControllerServer.
func (d *fakeDriver) ControllerModifyVolume(
	_ context.Context, r *csi.ControllerModifyVolumeRequest,
) (*csi.ControllerModifyVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.volume(r.GetVolumeId()); err != nil {
		return nil, err
	}
	return &csi.ControllerModifyVolumeResponse{}, nil
}

// NodeGetInfo implements csi.NodeServer.
func (d *fakeDriver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: nodeName}, nil
}

// NodeGetCapabilities implements csi.NodeServer.
func (d *fakeDriver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	answer := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		rpc := &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}
		answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{Type: rpc})
	}
	return answer, nil
}

// NodeStageVolume implements csi.NodeServer. Nothing is mounted.
func (d *fakeDriver) NodeStageVolume(context.Context, *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	return &csi.NodeStageVolumeResponse{}, nil
}

// NodeUnstageVolume implements csi.NodeServer.
func (d *fakeDriver) NodeUnstageVolume(
	context.Context, *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume implements csi.NodeServer: it creates an empty folder or file.
func (d *fakeDriver) NodePublishVolume(
	_ context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	var err error
	if r.GetVolumeCapability().GetBlock() == nil {
		err = os.MkdirAll(r.GetTargetPath(), 0o750)
	} else if err = os.MkdirAll(filepath.Dir(r.GetTargetPath()), 0o750); err == nil {
		err = os.WriteFile(r.GetTargetPath(), nil, 0o600)
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume implements csi.NodeServer.
func (d *fakeDriver) NodeUnpublishVolume(
	_ context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := os.Remove(r.GetTargetPath()); err != nil && !os.IsNotExist(err) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeExpandVolume implements csi.NodeServer.
func (d *fakeDriver) NodeExpandVolume(
	_ context.Context, r *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	return &csi.NodeExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
}

// things returns what the driver has of a script, as KIND/ID, sorted. With created it leaves out what
// scripts have made themselves.
func (d *fakeDriver) things(owner string, created bool) (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	add := func(kind, id, name string) {
		if strings.HasPrefix(id, owner+".") && (name != "" || !created) {
			all = append(all, kind+"/"+id)
		}
	}
	for id, v := range d.volumes {
		add("volume", id, v.name)
	}
	for id, s := range d.snapshots {
		add("snapshot", id, s.name)
	}
	for id := range d.groups {
		add("group", id, id)
	}
	slices.Sort(all)
	return all
}
