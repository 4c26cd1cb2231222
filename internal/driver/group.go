package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// groupServer is registered for a Grouper only; the rules are those of
// controllerService.
type groupServer struct {
	csi.UnimplementedGroupControllerServer
	service *controllerService
	running *InFlight
}

func (s *groupServer) GroupControllerGetCapabilities(
	context.Context,
	*csi.GroupControllerGetCapabilitiesRequest,
) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	return &csi.GroupControllerGetCapabilitiesResponse{Capabilities: s.service.features.groupCapabilities()}, nil
}

// CreateVolumeGroupSnapshot claims the group and every source, see
// CreateSnapshot.
func (s *groupServer) CreateVolumeGroupSnapshot(
	ctx context.Context,
	r *csi.CreateVolumeGroupSnapshotRequest,
) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	request, err := parseGroup(r)
	if err != nil {
		return nil, err
	}
	claims := aloneAll(groupObject(request.ID.String()))
	for _, source := range request.Sources {
		claims = append(claims, Alone(source.String()))
	}
	return exclusively(
		s.running,
		"CreateVolumeGroupSnapshot",
		claims,
		func() (*csi.CreateVolumeGroupSnapshotResponse, error) {
			group, err := s.service.createGroup(ctx, request)
			if err != nil {
				return nil, err
			}
			return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: groupMessage(group)}, nil
		},
	)
}

// DeleteVolumeGroupSnapshot claims the group, and the snapshots that the caller names, since
// volumes may be created from them at the same time.
func (s *groupServer) DeleteVolumeGroupSnapshot(
	ctx context.Context,
	r *csi.DeleteVolumeGroupSnapshotRequest,
) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	request, err := parseGroupQuestion(r.GetGroupSnapshotId(), r.GetSnapshotIds())
	if err != nil {
		return nil, err
	}
	claims := aloneAll(groupObject(request.groupID))
	for _, id := range request.snapshotIDs {
		claims = append(claims, Alone(snapshotObject(id)))
	}
	return exclusively(
		s.running,
		"DeleteVolumeGroupSnapshot",
		claims,
		func() (*csi.DeleteVolumeGroupSnapshotResponse, error) {
			if err := s.service.deleteGroup(ctx, request); err != nil {
				return nil, err
			}
			return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
		},
	)
}

// GetVolumeGroupSnapshot claims nothing, like every read-only call.
func (s *groupServer) GetVolumeGroupSnapshot(
	ctx context.Context,
	r *csi.GetVolumeGroupSnapshotRequest,
) (*csi.GetVolumeGroupSnapshotResponse, error) {
	request, err := parseGroupQuestion(r.GetGroupSnapshotId(), r.GetSnapshotIds())
	if err != nil {
		return nil, err
	}
	group, err := s.service.getGroup(ctx, request)
	if err != nil {
		return nil, err
	}
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: groupMessage(group)}, nil
}
