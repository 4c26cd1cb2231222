package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// This file has the read-only calls about volumes. They claim nothing: their result is out of date
// as soon as it is returned, and they must not block a call that changes something.

// ControllerGetVolume describes one volume, with the nodes that it is attached to.
func (s *controllerServer) ControllerGetVolume(
	ctx context.Context,
	r *csi.ControllerGetVolumeRequest,
) (*csi.ControllerGetVolumeResponse, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	volume, err := s.service.get(ctx, id)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: s.service.features.message(volume),
		Status: &csi.ControllerGetVolumeResponse_VolumeStatus{PublishedNodeIds: s.service.attachedTo(ctx, volume.ID)},
	}, nil
}

// ListVolumes may miss a volume that comes or goes meanwhile ("ListVolumes":
// no consistent view).
func (s *controllerServer) ListVolumes(
	ctx context.Context,
	r *csi.ListVolumesRequest,
) (*csi.ListVolumesResponse, error) {
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
		entry := &csi.ListVolumesResponse_Entry{Volume: s.service.features.message(volume)}
		if nodes := s.service.attachedTo(ctx, volume.ID); len(nodes) > 0 {
			entry.Status = &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: nodes}
		}
		response.Entries = append(response.Entries, entry)
	}
	return response, nil
}

// GetCapacity claims nothing, since it is about no volume.
func (s *controllerServer) GetCapacity(
	ctx context.Context,
	r *csi.GetCapacityRequest,
) (*csi.GetCapacityResponse, error) {
	if s.service.features.pool == nil {
		return s.UnimplementedControllerServer.GetCapacity(ctx, r)
	}
	request, err := s.service.features.parseCapacity(r)
	if err != nil {
		return nil, err
	}
	free, err := s.service.capacity(ctx, request)
	if err != nil {
		return nil, err
	}
	response := &csi.GetCapacityResponse{AvailableCapacity: free.available}
	if free.least > 0 {
		response.MinimumVolumeSize = wrapperspb.Int64(free.least)
	}
	return response, nil
}

// ControllerGetVolumeHealth says what is wrong with a volume, if anything.
func (s *controllerServer) ControllerGetVolumeHealth(
	ctx context.Context,
	r *csi.ControllerGetVolumeHealthRequest,
) (*csi.ControllerGetVolumeHealthResponse, error) {
	if s.service.features.health == nil {
		return s.UnimplementedControllerServer.ControllerGetVolumeHealth(ctx, r)
	}
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	health, err := s.service.health(ctx, id)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeHealthResponse{VolumeHealth: health}, nil
}

// ControllerListVolumeHealth lists the volumes with which something is wrong.
func (s *controllerServer) ControllerListVolumeHealth(
	ctx context.Context,
	r *csi.ControllerListVolumeHealthRequest,
) (*csi.ControllerListVolumeHealthResponse, error) {
	if s.service.features.health == nil || s.service.features.lister == nil {
		return s.UnimplementedControllerServer.ControllerListVolumeHealth(ctx, r)
	}
	page, err := parsePage(r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	entries, next, err := s.service.ailing(ctx, page)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerListVolumeHealthResponse{Entries: entries, NextToken: next}, nil
}
