package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// GroupControllerGetCapabilities implements csi.GroupControllerServer.
func (d *driver) GroupControllerGetCapabilities(
	context.Context, *csi.GroupControllerGetCapabilitiesRequest,
) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	return &csi.GroupControllerGetCapabilitiesResponse{Capabilities: []*csi.GroupControllerServiceCapability{{
		Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{
			Type: csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
		}},
	}}}, nil
}

// CreateVolumeGroupSnapshot implements csi.GroupControllerServer. The script is that of the first
// volume.
func (d *driver) CreateVolumeGroupSnapshot(
	_ context.Context, r *csi.CreateVolumeGroupSnapshotRequest,
) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	volumes := slices.Sorted(slices.Values(r.GetSourceVolumeIds()))
	first := volumes[0]
	d.note(first, fmt.Sprintf("CreateVolumeGroupSnapshot %s of %v %s secret %s",
		r.GetName(), volumes, written(r.GetParameters()), written(r.GetSecrets())))
	s := d.script(first)
	failed := len(s.failures) > 0
	if !failed || s.made {
		for _, volume := range volumes {
			if name := r.GetName() + "/" + volume; d.snapshots[name] == nil {
				d.snapshots[name] = &csi.Snapshot{
					SnapshotId: volume + "@" + r.GetName(), SourceVolumeId: volume, SizeBytes: s.size, CreationTime: timestamppb.Now(),
				}
			}
		}
	}
	if failed {
		code := s.failures[0]
		if !s.forever || len(s.failures) > 1 {
			s.failures = s.failures[1:]
		}
		return nil, status.Error(code, "scripted")
	}
	d.answers[r.GetName()]++
	group := &csi.VolumeGroupSnapshot{
		GroupSnapshotId: first + "@" + r.GetName(), CreationTime: timestamppb.Now(), ReadyToUse: d.answers[r.GetName()] > s.unready,
	}
	for _, volume := range volumes {
		made := d.snapshots[r.GetName()+"/"+volume]
		group.Snapshots = append(group.Snapshots, &csi.Snapshot{
			SnapshotId: made.GetSnapshotId(), SourceVolumeId: volume, SizeBytes: made.GetSizeBytes(), CreationTime: made.GetCreationTime(),
			ReadyToUse: group.GetReadyToUse(), GroupSnapshotId: group.GetGroupSnapshotId(),
		})
	}
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: group}, nil
}

// DeleteVolumeGroupSnapshot implements csi.GroupControllerServer.
func (d *driver) DeleteVolumeGroupSnapshot(
	_ context.Context, r *csi.DeleteVolumeGroupSnapshotRequest,
) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first, _, _ := strings.Cut(r.GetGroupSnapshotId(), "@")
	ids := slices.Sorted(slices.Values(r.GetSnapshotIds()))
	d.note(first, fmt.Sprintf("DeleteVolumeGroupSnapshot %s of %v secret %s", r.GetGroupSnapshotId(), ids, written(r.GetSecrets())))
	for name, s := range d.snapshots {
		if slices.Contains(ids, s.GetSnapshotId()) {
			delete(d.snapshots, name)
		}
	}
	return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
}
