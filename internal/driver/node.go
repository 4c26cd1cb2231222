package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/inflight"
)

// nodeServer parses messages and claims volumes and targets; nodeService has
// the rules.
type nodeServer struct {
	csi.UnimplementedNodeServer
	service *nodeService
	running *inflight.Table
}

// NodePublishVolume claims the volume, because where it may be published
// depends on where it is, and the target, because two volumes could be sent
// to the same one.
func (s *nodeServer) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	request, err := parsePublish(r)
	if err != nil {
		return nil, err
	}
	keys := []string{request.volumeID, request.target}
	return guarded(s.running, "NodePublishVolume", keys, func() (*csi.NodePublishVolumeResponse, error) {
		if err := s.service.publish(ctx, request); err != nil {
			return nil, err
		}
		return &csi.NodePublishVolumeResponse{}, nil
	})
}

// NodeUnpublishVolume claims the same as NodePublishVolume.
func (s *nodeServer) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	request, err := parseUnpublish(r)
	if err != nil {
		return nil, err
	}
	keys := []string{request.volumeID, request.path}
	return guarded(s.running, "NodeUnpublishVolume", keys, func() (*csi.NodeUnpublishVolumeResponse, error) {
		if err := s.service.unpublish(ctx, request); err != nil {
			return nil, err
		}
		return &csi.NodeUnpublishVolumeResponse{}, nil
	})
}

// NodeGetVolumeStats claims nothing: kubelet asks all the time, and a question
// that hangs on a dead filesystem must not keep the volume from being
// unpublished.
func (s *nodeServer) NodeGetVolumeStats(ctx context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if s.service.features.usage == nil {
		return s.UnimplementedNodeServer.NodeGetVolumeStats(ctx, r)
	}
	request, err := parseStats(r)
	if err != nil {
		return nil, err
	}
	usage, err := s.service.usage(ctx, request)
	if err != nil {
		return nil, err
	}
	response := &csi.NodeGetVolumeStatsResponse{}
	for _, u := range usage {
		response.Usage = append(response.Usage, &csi.VolumeUsage{
			Unit: unitOf[u.Unit], Total: u.Total, Used: u.Used, Available: u.Available,
		})
	}
	return response, nil
}

var unitOf = map[backend.Unit]csi.VolumeUsage_Unit{
	backend.Bytes:  csi.VolumeUsage_BYTES,
	backend.Inodes: csi.VolumeUsage_INODES,
}

func (s *nodeServer) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{Capabilities: s.service.features.nodeCapabilities()}, nil
}

func (s *nodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: s.service.nodeID}, nil
}
