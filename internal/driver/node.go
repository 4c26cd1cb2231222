package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// nodeServer parses messages and claims volumes and targets; nodeService has
// the rules.
type nodeServer struct {
	csi.UnimplementedNodeServer
	service *nodeService
	running *InFlight
}

// NodeStageVolume claims the volume and the path.
func (s *nodeServer) NodeStageVolume(
	ctx context.Context,
	r *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	if s.service.features.stager == nil {
		return s.UnimplementedNodeServer.NodeStageVolume(ctx, r)
	}
	request, volumeID, err := parseStage(r)
	if err != nil {
		return nil, err
	}
	return exclusively(
		s.running,
		"NodeStageVolume",
		aloneAll(volumeID, request.Path),
		func() (*csi.NodeStageVolumeResponse, error) {
			if err := s.service.stage(ctx, volumeID, request); err != nil {
				return nil, err
			}
			return &csi.NodeStageVolumeResponse{}, nil
		},
	)
}

// NodeUnstageVolume claims the same as NodeStageVolume.
func (s *nodeServer) NodeUnstageVolume(
	ctx context.Context,
	r *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	if s.service.features.stager == nil {
		return s.UnimplementedNodeServer.NodeUnstageVolume(ctx, r)
	}
	request, err := parseUnstage(r)
	if err != nil {
		return nil, err
	}
	return exclusively(
		s.running,
		"NodeUnstageVolume",
		aloneAll(request.volumeID, request.path),
		func() (*csi.NodeUnstageVolumeResponse, error) {
			if err := s.service.unstage(ctx, request); err != nil {
				return nil, err
			}
			return &csi.NodeUnstageVolumeResponse{}, nil
		},
	)
}

// NodePublishVolume claims the volume, because where it may be published
// depends on where it is, and the target, because two volumes could be sent
// to the same one.
func (s *nodeServer) NodePublishVolume(
	ctx context.Context,
	r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	request, err := s.service.features.parsePublish(r)
	if err != nil {
		return nil, err
	}
	claims := aloneAll(request.volumeID, request.target)
	return exclusively(s.running, "NodePublishVolume", claims, func() (*csi.NodePublishVolumeResponse, error) {
		if err := s.service.publish(ctx, request); err != nil {
			return nil, err
		}
		return &csi.NodePublishVolumeResponse{}, nil
	})
}

// NodeUnpublishVolume claims the same as NodePublishVolume.
func (s *nodeServer) NodeUnpublishVolume(
	ctx context.Context,
	r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	request, err := parseUnpublish(r)
	if err != nil {
		return nil, err
	}
	claims := aloneAll(request.volumeID, request.path)
	return exclusively(s.running, "NodeUnpublishVolume", claims, func() (*csi.NodeUnpublishVolumeResponse, error) {
		if err := s.service.unpublish(ctx, request); err != nil {
			return nil, err
		}
		return &csi.NodeUnpublishVolumeResponse{}, nil
	})
}

// NodeGetVolumeStats claims nothing: kubelet asks all the time, and a question
// that hangs on a dead filesystem must not keep the volume from being
// unpublished.
func (s *nodeServer) NodeGetVolumeStats(
	ctx context.Context,
	r *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
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

func (s *nodeServer) NodeGetCapabilities(
	context.Context,
	*csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{Capabilities: s.service.features.nodeCapabilities()}, nil
}

func (s *nodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	info := &csi.NodeGetInfoResponse{
		NodeId:             s.service.nodeID,
		AccessibleTopology: s.service.features.location.topology(),
	}
	if s.service.features.limited != nil {
		info.MaxVolumesPerNode = s.service.features.limited.MaxVolumesPerNode()
	}
	return info, nil
}

// NodeExpandVolume claims the volume.
func (s *nodeServer) NodeExpandVolume(
	ctx context.Context,
	r *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	if s.service.features.nodeExpander == nil {
		return s.UnimplementedNodeServer.NodeExpandVolume(ctx, r)
	}
	request, err := parseNodeExpand(r)
	if err != nil {
		return nil, err
	}
	return exclusively(
		s.running,
		"NodeExpandVolume",
		aloneAll(request.volumeID),
		func() (*csi.NodeExpandVolumeResponse, error) {
			bytes, err := s.service.expand(ctx, request)
			if err != nil {
				return nil, err
			}
			return &csi.NodeExpandVolumeResponse{CapacityBytes: bytes}, nil
		},
	)
}
