package driver

import (
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// growth is a parsed ControllerExpandVolume request.
type growth struct {
	volumeID string
	size     backend.Range
}

func parseExpand(r *csi.ControllerExpandVolumeRequest) (growth, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return growth{}, err
	}
	if r.GetCapacityRange() == nil {
		return growth{}, missing("capacity_range")
	}
	size, err := parseRange(r.GetCapacityRange())
	if err != nil || r.GetVolumeCapability() == nil {
		return growth{volumeID: id, size: size}, err
	}
	_, err = parseCapability("volume_capability", r.GetVolumeCapability())
	return growth{volumeID: id, size: size}, err
}

// change is a parsed ControllerModifyVolume request.
type change struct {
	volumeID string
	mutable  map[string]string
}

func parseModify(r *csi.ControllerModifyVolumeRequest) (change, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return change{}, err
	}
	mutable, err := parseParameters("mutable_parameters", r.GetMutableParameters())
	return change{volumeID: id, mutable: mutable}, err
}

// parseSnapshot gives fault.NotFound for a source that this driver cannot have
// made.
func parseSnapshot(r *csi.CreateSnapshotRequest) (backend.SnapshotRequest, error) {
	name, err := parseName(r.GetName())
	if err != nil {
		return backend.SnapshotRequest{}, err
	}
	if r.GetSourceVolumeId() == "" {
		return backend.SnapshotRequest{}, missing("source_volume_id")
	}
	if r.GetAccessibilityRequirements() != nil {
		return backend.SnapshotRequest{}, fault.Invalid.Errorf(
			"accessibility_requirements: this driver does not advertise SNAPSHOT_ACCESSIBILITY_CONSTRAINTS; leave " +
				"them out")
	}
	parameters, err := parseParameters("parameters", r.GetParameters())
	if err != nil {
		return backend.SnapshotRequest{}, err
	}
	source, err := backend.ParseID(r.GetSourceVolumeId())
	if err != nil {
		return backend.SnapshotRequest{}, err
	}
	return backend.SnapshotRequest{ID: backend.IDOf(name), Name: name, Source: source, Parameters: parameters}, nil
}

func parseSnapshotID(text string) (string, error) {
	if text == "" {
		return "", missing("snapshot_id")
	}
	return text, nil
}

func noSuchSnapshot(id string) error {
	return fault.NotFound.Errorf("snapshot %.128q does not exist", id)
}

// parseGroup sorts the sources: their order says nothing.
func parseGroup(r *csi.CreateVolumeGroupSnapshotRequest) (backend.GroupRequest, error) {
	name, err := parseName(r.GetName())
	if err != nil {
		return backend.GroupRequest{}, err
	}
	if len(r.GetSourceVolumeIds()) == 0 {
		return backend.GroupRequest{}, missing("source_volume_ids")
	}
	parameters, err := parseParameters("parameters", r.GetParameters())
	if err != nil {
		return backend.GroupRequest{}, err
	}
	g := backend.GroupRequest{ID: backend.IDOf(name), Name: name, Parameters: parameters}
	for _, text := range r.GetSourceVolumeIds() {
		id, err := backend.ParseID(text)
		if err != nil {
			return backend.GroupRequest{}, err
		}
		g.Sources = append(g.Sources, id)
	}
	slices.SortFunc(g.Sources, compareIDs)
	if duplicates := len(g.Sources) - len(slices.Compact(slices.Clone(g.Sources))); duplicates > 0 {
		return backend.GroupRequest{}, fault.Invalid.Errorf(
			"source_volume_ids: %d are named twice; name each volume once",
			duplicates,
		)
	}
	return g, nil
}

func compareIDs(a, b backend.ID) int { return strings.Compare(a.String(), b.String()) }

// groupQuestion names a group and, when the caller knows them, its snapshots.
type groupQuestion struct {
	groupID     string
	snapshotIDs []string
}

func parseGroupQuestion(id string, snapshots []string) (groupQuestion, error) {
	if id == "" {
		return groupQuestion{}, missing("group_snapshot_id")
	}
	return groupQuestion{groupID: id, snapshotIDs: snapshots}, nil
}
