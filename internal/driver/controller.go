package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// controllerServer parses messages and claims volumes; controllerService has
// the rules.
type controllerServer struct {
	csi.UnimplementedControllerServer
	service *controllerService
	running *InFlight
}

// CreateVolume claims the id that the name leads to. That excludes a second
// CreateVolume with the same name, and a DeleteVolume of that volume. It
// also claims its source.
func (s *controllerServer) CreateVolume(
	ctx context.Context,
	r *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	request, err := s.service.features.parseCreate(r)
	if err != nil {
		return nil, err
	}
	claims := append(aloneAll(request.ID.String()), sourceClaim(request.Source)...)
	return exclusively(s.running, "CreateVolume", claims, func() (*csi.CreateVolumeResponse, error) {
		volume, err := s.service.createIn(
			ctx, request, s.service.features.zones.wanted(r.GetAccessibilityRequirements()),
		)
		if err != nil {
			return nil, err
		}
		return &csi.CreateVolumeResponse{Volume: s.service.features.message(volume)}, nil
	})
}

// DeleteVolume claims the volume.
func (s *controllerServer) DeleteVolume(
	ctx context.Context,
	r *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return exclusively(s.running, "DeleteVolume", aloneAll(id), func() (*csi.DeleteVolumeResponse, error) {
		if err := s.service.remove(ctx, id); err != nil {
			return nil, err
		}
		return &csi.DeleteVolumeResponse{}, nil
	})
}

// ValidateVolumeCapabilities claims nothing: it reads metadata that is written once,
// when the volume is created.
func (s *controllerServer) ValidateVolumeCapabilities(
	ctx context.Context,
	r *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	request, err := parseValidate(r)
	if err != nil {
		return nil, err
	}
	objection, err := s.service.validate(ctx, request)
	if err != nil {
		return nil, err
	}
	if _, err := s.service.features.parseMutable(r.GetMutableParameters()); err != nil && objection == "" {
		objection = err.Error()
	}
	if objection != "" {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: objection}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext:      r.GetVolumeContext(),
		VolumeCapabilities: r.GetVolumeCapabilities(),
		Parameters:         r.GetParameters(),
		MutableParameters:  r.GetMutableParameters(),
	}}, nil
}

func (s *controllerServer) ControllerGetCapabilities(
	context.Context,
	*csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: s.service.features.controllerCapabilities()}, nil
}
