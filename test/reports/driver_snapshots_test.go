package reports

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// fakeSnapshot is a snapshot of the driver.
type fakeSnapshot struct {
	*csi.Snapshot
	name string // empty: made by a script
}

// CreateSnapshot implements csi.ControllerServer.
func (d *fakeDriver) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	made, err := d.makeSnapshot(r.GetName(), r.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: made}, nil
}

// makeSnapshot returns the snapshot of a volume with a name. It makes it the first time.
func (d *fakeDriver) makeSnapshot(name, volume string) (*csi.Snapshot, error) {
	v, err := d.volume(volume)
	if err != nil {
		return nil, err
	}
	id := volume + "@" + name
	if d.snapshots[id] == nil {
		d.snapshots[id] = &fakeSnapshot{name: name, Snapshot: &csi.Snapshot{
			SnapshotId: id, SourceVolumeId: volume, SizeBytes: v.bytes, CreationTime: timestamppb.Now(), ReadyToUse: true,
		}}
	}
	return d.snapshots[id].Snapshot, nil
}

// DeleteSnapshot implements csi.ControllerServer.
func (d *fakeDriver) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.snapshots[r.GetSnapshotId()]; s != nil && s.GetGroupSnapshotId() != "" {
		return nil, status.Errorf(codes.InvalidArgument, "snapshot %s is of group %s", s.GetSnapshotId(), s.GetGroupSnapshotId())
	}
	delete(d.snapshots, r.GetSnapshotId())
	return &csi.DeleteSnapshotResponse{}, nil
}

// ListSnapshots implements csi.ControllerServer, for one snapshot.
func (d *fakeDriver) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := &csi.ListSnapshotsResponse{}
	if s := d.snapshots[r.GetSnapshotId()]; s != nil {
		answer.Entries = []*csi.ListSnapshotsResponse_Entry{{Snapshot: s.Snapshot}}
	}
	return answer, nil
}

// GroupControllerGetCapabilities implements csi.GroupControllerServer.
func (d *fakeDriver) GroupControllerGetCapabilities(
	context.Context, *csi.GroupControllerGetCapabilitiesRequest,
) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	rpc := &csi.GroupControllerServiceCapability_RPC{
		Type: csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
	}
	return &csi.GroupControllerGetCapabilitiesResponse{Capabilities: []*csi.GroupControllerServiceCapability{{
		Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: rpc},
	}}}, nil
}

// CreateVolumeGroupSnapshot implements csi.GroupControllerServer.
func (d *fakeDriver) CreateVolumeGroupSnapshot(
	_ context.Context, r *csi.CreateVolumeGroupSnapshotRequest,
) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	volumes := slices.Sorted(slices.Values(r.GetSourceVolumeIds()))
	if len(volumes) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no source volumes")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id := volumes[0] + "@" + r.GetName()
	group := d.groups[id]
	if group == nil {
		group = &csi.VolumeGroupSnapshot{GroupSnapshotId: id, CreationTime: timestamppb.Now(), ReadyToUse: true}
		for _, volume := range volumes {
			made, err := d.makeSnapshot(r.GetName(), volume)
			if err != nil {
				return nil, err
			}
			made.GroupSnapshotId = id
			group.Snapshots = append(group.Snapshots, made)
		}
		d.groups[id] = group
	}
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: group}, nil
}

// DeleteVolumeGroupSnapshot implements csi.GroupControllerServer.
func (d *fakeDriver) DeleteVolumeGroupSnapshot(
	_ context.Context, r *csi.DeleteVolumeGroupSnapshotRequest,
) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.groups[r.GetGroupSnapshotId()].GetSnapshots() {
		if !slices.Contains(r.GetSnapshotIds(), s.GetSnapshotId()) {
			return nil, status.Errorf(codes.InvalidArgument, "snapshot %s of the group is not in the request", s.GetSnapshotId())
		}
		delete(d.snapshots, s.GetSnapshotId())
	}
	delete(d.groups, r.GetGroupSnapshotId())
	return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
}

// GetVolumeGroupSnapshot implements csi.GroupControllerServer.
func (d *fakeDriver) GetVolumeGroupSnapshot(
	_ context.Context, r *csi.GetVolumeGroupSnapshotRequest,
) (*csi.GetVolumeGroupSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	group := d.groups[r.GetGroupSnapshotId()]
	if group == nil {
		return nil, status.Errorf(codes.NotFound, "group %s does not exist", r.GetGroupSnapshotId())
	}
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: group}, nil
}
