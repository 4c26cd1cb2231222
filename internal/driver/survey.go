package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// surveyServer is the SnapshotMetadata service. It is registered for a
// Surveyor only; the rules are those of controllerService.
type surveyServer struct {
	csi.UnimplementedSnapshotMetadataServer
	service *controllerService
	running *InFlight
}

func (s *surveyServer) GetMetadataAllocated(
	r *csi.GetMetadataAllocatedRequest,
	stream csi.SnapshotMetadata_GetMetadataAllocatedServer,
) error {
	request, err := parseAllocated(r)
	if err != nil {
		return err
	}
	return s.run(stream.Context(), "GetMetadataAllocated", request, func(capacity int64, part []backend.Extent) error {
		return stream.Send(&csi.GetMetadataAllocatedResponse{
			BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH, VolumeCapacityBytes: capacity,
			BlockMetadata: extentMessages(part),
		})
	})
}

func (s *surveyServer) GetMetadataDelta(
	r *csi.GetMetadataDeltaRequest,
	stream csi.SnapshotMetadata_GetMetadataDeltaServer,
) error {
	request, err := parseDelta(r)
	if err != nil {
		return err
	}
	return s.run(stream.Context(), "GetMetadataDelta", request, func(capacity int64, part []backend.Extent) error {
		return stream.Send(&csi.GetMetadataDeltaResponse{
			BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH, VolumeCapacityBytes: capacity,
			BlockMetadata: extentMessages(part),
		})
	})
}

// run claims the snapshots for reading, so that they are not deleted meanwhile. It also claims
// their groups: deleting a group deletes its snapshots, and the request need not name them.
func (s *surveyServer) run(
	ctx context.Context,
	operation string,
	q survey,
	send func(capacity int64, part []backend.Extent) error,
) error {
	var claims []Claim
	for _, id := range q.snapshots {
		claims = append(claims, Shared(snapshotObject(id)))
	}
	release, err := s.running.Start(operation, claims...)
	if err != nil {
		return err
	}
	defer release()
	found, err := s.service.surveyed(ctx, q)
	if err != nil {
		return err
	}
	releaseGroups, err := s.running.Start(operation, groupsOf(found)...)
	if err != nil {
		return err
	}
	defer releaseGroups()
	return s.service.survey(ctx, q, found, send)
}

func groupsOf(snapshots []backend.Snapshot) (claims []Claim) {
	for _, snapshot := range snapshots {
		if snapshot.Group != "" {
			claims = append(claims, Shared(groupObject(snapshot.Group)))
		}
	}
	return claims
}

func extentMessages(part []backend.Extent) []*csi.BlockMetadata {
	messages := make([]*csi.BlockMetadata, 0, len(part))
	for _, e := range part {
		messages = append(messages, &csi.BlockMetadata{ByteOffset: e.Offset, SizeBytes: e.Length})
	}
	return messages
}
