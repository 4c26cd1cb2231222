package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/inflight"
)

// controllerServer parses messages and claims volumes; controllerService has
// the rules.
type controllerServer struct {
	csi.UnimplementedControllerServer
	service *controllerService
	running *inflight.Table
}

// CreateVolume claims the id that the name leads to. That excludes a second
// CreateVolume with the same name, and a DeleteVolume of what it makes.
func (s *controllerServer) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	request, err := parseCreate(r)
	if err != nil {
		return nil, err
	}
	return guarded(s.running, "CreateVolume", []string{request.ID.String()}, func() (*csi.CreateVolumeResponse, error) {
		volume, err := s.service.create(ctx, request)
		if err != nil {
			return nil, err
		}
		return &csi.CreateVolumeResponse{Volume: toMessage(volume)}, nil
	})
}

// DeleteVolume claims the volume.
func (s *controllerServer) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return guarded(s.running, "DeleteVolume", []string{id}, func() (*csi.DeleteVolumeResponse, error) {
		if err := s.service.remove(ctx, id); err != nil {
			return nil, err
		}
		return &csi.DeleteVolumeResponse{}, nil
	})
}

// ValidateVolumeCapabilities claims nothing: it reads what is written once,
// when the volume appears.
func (s *controllerServer) ValidateVolumeCapabilities(ctx context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	request, err := parseValidate(r)
	if err != nil {
		return nil, err
	}
	objection, err := s.service.validate(ctx, request)
	if err != nil {
		return nil, err
	}
	if len(r.GetMutableParameters()) > 0 {
		objection = "mutable_parameters: this driver does not advertise MODIFY_VOLUME"
	}
	if objection != "" {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: objection}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext:      r.GetVolumeContext(),
		VolumeCapabilities: r.GetVolumeCapabilities(),
		Parameters:         r.GetParameters(),
	}}, nil
}

// ListVolumes claims nothing: a volume that comes or goes meanwhile may be
// missing or not ("ListVolumes": no consistent view).
func (s *controllerServer) ListVolumes(ctx context.Context, r *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	if s.service.features.lister == nil {
		return s.UnimplementedControllerServer.ListVolumes(ctx, r)
	}
	page, err := parsePage(r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	volumes, next, err := s.service.list(ctx, page)
	if err != nil {
		return nil, err
	}
	response := &csi.ListVolumesResponse{NextToken: next}
	for _, volume := range volumes {
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{Volume: toMessage(volume)})
	}
	return response, nil
}

// GetCapacity claims nothing: it is about no volume.
func (s *controllerServer) GetCapacity(ctx context.Context, r *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if s.service.features.pool == nil {
		return s.UnimplementedControllerServer.GetCapacity(ctx, r)
	}
	request, err := parseCapacity(r)
	if err != nil {
		return nil, err
	}
	available, err := s.service.available(ctx, request)
	if err != nil {
		return nil, err
	}
	return &csi.GetCapacityResponse{AvailableCapacity: available}, nil
}

func (s *controllerServer) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: s.service.features.controllerCapabilities()}, nil
}
