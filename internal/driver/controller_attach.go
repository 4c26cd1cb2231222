package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// ControllerPublishVolume claims the volume: to which nodes it may be attached
// depends on where it is attached.
func (s *controllerServer) ControllerPublishVolume(
	ctx context.Context,
	r *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	if !s.service.features.attaches {
		return s.UnimplementedControllerServer.ControllerPublishVolume(ctx, r)
	}
	request, err := parseAttach(r)
	if err != nil {
		return nil, err
	}
	return exclusively(
		s.running,
		"ControllerPublishVolume",
		aloneAll(request.volumeID),
		func() (*csi.ControllerPublishVolumeResponse, error) {
			if err := s.service.attach(ctx, request); err != nil {
				return nil, err
			}
			return &csi.ControllerPublishVolumeResponse{}, nil
		},
	)
}

// ControllerUnpublishVolume claims the volume.
func (s *controllerServer) ControllerUnpublishVolume(
	ctx context.Context,
	r *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	if !s.service.features.attaches {
		return s.UnimplementedControllerServer.ControllerUnpublishVolume(ctx, r)
	}
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return exclusively(
		s.running,
		"ControllerUnpublishVolume",
		aloneAll(id),
		func() (*csi.ControllerUnpublishVolumeResponse, error) {
			if err := s.service.detach(ctx, id, r.GetNodeId()); err != nil {
				return nil, err
			}
			return &csi.ControllerUnpublishVolumeResponse{}, nil
		},
	)
}

// attaching is a parsed ControllerPublishVolume request.
type attaching struct {
	volumeID   string
	node       string
	capability backend.Capability
}

func parseAttach(r *csi.ControllerPublishVolumeRequest) (attaching, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return attaching{}, err
	}
	if r.GetNodeId() == "" {
		return attaching{}, missing("node_id")
	}
	capability, err := parseCapability("volume_capability", r.GetVolumeCapability())
	if err != nil {
		return attaching{}, err
	}
	if r.GetReadonly() {
		return attaching{}, fault.Invalid.Errorf(
			"readonly: this driver does not advertise PUBLISH_READONLY; leave it false",
		)
	}
	return attaching{volumeID: id, node: r.GetNodeId(), capability: capability}, nil
}
