package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/reserve"
)

// This file has the calls that change an existing volume, and those for its snapshots.

// ControllerExpandVolume claims the volume.
func (s *controllerServer) ControllerExpandVolume(
	ctx context.Context,
	r *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	if s.service.features.expander == nil {
		return s.UnimplementedControllerServer.ControllerExpandVolume(ctx, r)
	}
	request, err := parseExpand(r)
	if err != nil {
		return nil, err
	}
	return exclusively(
		s.running,
		"ControllerExpandVolume",
		aloneAll(request.volumeID),
		func() (*csi.ControllerExpandVolumeResponse, error) {
			grown, err := s.service.expand(ctx, request)
			if fault.Exhausted.Is(err) && !reserve.IsFull(err) {
				// "ControllerExpandVolume Errors" has OUT_OF_RANGE for a size that cannot be had.
				// RESOURCE_EXHAUSTED is uncertain to a resizer, which would insist on this size and
				// not let a smaller one recover the claim (RZ-C1, RZ-D8). In a full pool no size can
				// be had: the same one is possible when there is space again.
				err = fault.OutOfRange.Errorf("%w", err)
			}
			if err != nil {
				return nil, err
			}
			return &csi.ControllerExpandVolumeResponse{
				CapacityBytes: grown.CapacityBytes, NodeExpansionRequired: grown.NodeMustExpand &&
					s.service.features.nodeExpander != nil,
			}, nil
		},
	)
}

// ControllerModifyVolume claims the volume.
func (s *controllerServer) ControllerModifyVolume(
	ctx context.Context,
	r *csi.ControllerModifyVolumeRequest,
) (*csi.ControllerModifyVolumeResponse, error) {
	if s.service.features.modifier == nil {
		return s.UnimplementedControllerServer.ControllerModifyVolume(ctx, r)
	}
	request, err := parseModify(r)
	if err != nil {
		return nil, err
	}
	return exclusively(
		s.running,
		"ControllerModifyVolume",
		aloneAll(request.volumeID),
		func() (*csi.ControllerModifyVolumeResponse, error) {
			if err := s.service.modify(ctx, request); err != nil {
				return nil, err
			}
			return &csi.ControllerModifyVolumeResponse{}, nil
		},
	)
}

// CreateSnapshot claims the snapshot and the volume: a snapshot of a volume that is deleted,
// expanded or unmounted meanwhile is not of one point in time.
func (s *controllerServer) CreateSnapshot(
	ctx context.Context,
	r *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	if s.service.features.snapshotter == nil {
		return s.UnimplementedControllerServer.CreateSnapshot(ctx, r)
	}
	request, err := parseSnapshot(r)
	if err != nil {
		return nil, err
	}
	claims := aloneAll(snapshotObject(request.ID.String()), request.Source.String())
	return exclusively(s.running, "CreateSnapshot", claims, func() (*csi.CreateSnapshotResponse, error) {
		snapshot, err := s.service.createSnapshot(ctx, request)
		if err != nil {
			return nil, err
		}
		return &csi.CreateSnapshotResponse{Snapshot: snapshotMessage(snapshot)}, nil
	})
}

// DeleteSnapshot claims the snapshot.
func (s *controllerServer) DeleteSnapshot(
	ctx context.Context,
	r *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	if s.service.features.snapshotter == nil {
		return s.UnimplementedControllerServer.DeleteSnapshot(ctx, r)
	}
	id, err := parseSnapshotID(r.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	return exclusively(
		s.running,
		"DeleteSnapshot",
		aloneAll(snapshotObject(id)),
		func() (*csi.DeleteSnapshotResponse, error) {
			if err := s.service.deleteSnapshot(ctx, id); err != nil {
				return nil, err
			}
			return &csi.DeleteSnapshotResponse{}, nil
		},
	)
}

// GetSnapshot claims nothing, like every read-only call.
func (s *controllerServer) GetSnapshot(
	ctx context.Context,
	r *csi.GetSnapshotRequest,
) (*csi.GetSnapshotResponse, error) {
	if s.service.features.snapshotter == nil {
		return s.UnimplementedControllerServer.GetSnapshot(ctx, r)
	}
	id, err := parseSnapshotID(r.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	snapshot, err := s.service.getSnapshot(ctx, id)
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: snapshotMessage(snapshot)}, nil
}

// ListSnapshots claims nothing, like every read-only call.
func (s *controllerServer) ListSnapshots(
	ctx context.Context,
	r *csi.ListSnapshotsRequest,
) (*csi.ListSnapshotsResponse, error) {
	if s.service.features.snapshotter == nil {
		return s.UnimplementedControllerServer.ListSnapshots(ctx, r)
	}
	page, err := parsePage(r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	snapshots, next, err := s.service.listSnapshots(
		ctx,
		page,
		snapshotFilter{id: r.GetSnapshotId(), source: r.GetSourceVolumeId()},
	)
	if err != nil {
		return nil, err
	}
	response := &csi.ListSnapshotsResponse{NextToken: next}
	for _, snapshot := range snapshots {
		response.Entries = append(
			response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: snapshotMessage(snapshot)},
		)
	}
	return response, nil
}
