package driver

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// message returns the CSI message of a volume.
func (f features) message(v backend.Volume) *csi.Volume {
	at := f.location.topologies()
	if f.zones.exist() {
		at = f.zones.topologies(v.ID)
	}
	return &csi.Volume{
		VolumeId: v.ID.String(), CapacityBytes: v.CapacityBytes,
		ContentSource: sourceMessage(v.Source), AccessibleTopology: at,
	}
}

func sourceMessage(source backend.Source) *csi.VolumeContentSource {
	switch {
	case source.Snapshot != backend.ID{}:
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: source.Snapshot.String()},
		}}
	case source.Volume != backend.ID{}:
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: source.Volume.String()},
		}}
	default:
		return nil
	}
}

func snapshotMessage(s backend.Snapshot) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: s.ID.String(), SourceVolumeId: s.Source.String(), SizeBytes: s.LeastSource(),
		CreationTime: timestamppb.New(s.Created), ReadyToUse: true, GroupSnapshotId: s.Group,
	}
}

func groupMessage(g backend.Group) *csi.VolumeGroupSnapshot {
	m := &csi.VolumeGroupSnapshot{
		GroupSnapshotId: g.ID.String(),
		CreationTime:    timestamppb.New(g.Created),
		ReadyToUse:      true,
	}
	for _, s := range g.Snapshots {
		m.Snapshots = append(m.Snapshots, snapshotMessage(s))
	}
	return m
}
