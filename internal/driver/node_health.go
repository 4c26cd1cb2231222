package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// This file has the health calls of the node. They claim nothing, like every read-only call.

// NodeGetVolumeHealth returns the same as ControllerGetVolumeHealth: a backend checks the volume on
// this node. The paths in the request are not used.
func (s *nodeServer) NodeGetVolumeHealth(
	ctx context.Context,
	r *csi.NodeGetVolumeHealthRequest,
) (*csi.NodeGetVolumeHealthResponse, error) {
	if s.service.features.health == nil {
		return s.UnimplementedNodeServer.NodeGetVolumeHealth(ctx, r)
	}
	text, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	id, err := backend.ParseID(text)
	if err != nil {
		return nil, err
	}
	health, err := healthOf(ctx, s.service.features.health, id)
	if err != nil {
		return nil, err
	}
	return &csi.NodeGetVolumeHealthResponse{VolumeHealth: health}, nil
}

// NodeGetStorageHealth returns as a list what Probe returns as an error: that the backend cannot
// work on this node.
func (s *nodeServer) NodeGetStorageHealth(
	ctx context.Context,
	r *csi.NodeGetStorageHealthRequest,
) (*csi.NodeGetStorageHealthResponse, error) {
	if s.service.features.checker == nil {
		return s.UnimplementedNodeServer.NodeGetStorageHealth(ctx, r)
	}
	return &csi.NodeGetStorageHealthResponse{BackendHealth: storageHealth(ctx, s.service.features.checker)}, nil
}

func storageHealth(
	ctx context.Context,
	checker backend.Checker,
) []*csi.NodeGetStorageHealthResponse_StorageBackendHealth {
	err := checker.Check(ctx)
	if err == nil {
		return nil
	}
	return []*csi.NodeGetStorageHealthResponse_StorageBackendHealth{{
		Status: csi.StorageHealthErrorType_STORAGE_UNREACHABLE, Reason: "Unusable", Message: err.Error(),
	}}
}
