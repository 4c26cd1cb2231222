package driver

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// publishing is a parsed NodePublishVolume request.
type publishing struct {
	volumeID string
	target   string
	// staging is empty for a backend that is not a Stager.
	staging    string
	capability backend.Capability
	readOnly   bool
}

func (f features) parsePublish(r *csi.NodePublishVolumeRequest) (publishing, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return publishing{}, err
	}
	target, err := parsePath("target_path", r.GetTargetPath())
	if err != nil {
		return publishing{}, err
	}
	capability, err := parseCapability("volume_capability", r.GetVolumeCapability())
	if err != nil {
		return publishing{}, err
	}
	p := publishing{volumeID: id, target: target, capability: capability, readOnly: r.GetReadonly()}
	if f.stager == nil {
		return p, nil
	}
	if r.GetStagingTargetPath() == "" {
		// "NodePublishVolume Errors": staging target path not set.
		return publishing{}, fault.Unready.Errorf(
			"staging_target_path: missing; volumes of this driver are staged before they are published",
		)
	}
	p.staging, err = parsePath("staging_target_path", r.GetStagingTargetPath())
	return p, err
}

// place is a volume and a path: NodeUnpublishVolume, NodeUnstageVolume and
// NodeGetVolumeStats.
type place struct {
	volumeID string
	path     string
}

func parseUnpublish(r *csi.NodeUnpublishVolumeRequest) (place, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return place{}, err
	}
	path, err := parsePath("target_path", r.GetTargetPath())
	return place{volumeID: id, path: path}, err
}

// parseStats takes a relative path for one where no volume is: csi-sanity asks
// for NOT_FOUND there, although the spec says that it MUST be absolute.
func parseStats(r *csi.NodeGetVolumeStatsRequest) (place, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return place{}, err
	}
	path, err := parsePath("volume_path", r.GetVolumePath())
	if err != nil && r.GetVolumePath() != "" {
		return place{}, fault.NotFound.Errorf("no volume is there: %w", err)
	}
	return place{volumeID: id, path: path}, err
}

func parseStage(r *csi.NodeStageVolumeRequest) (backend.Staging, string, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return backend.Staging{}, "", err
	}
	path, err := parsePath("staging_target_path", r.GetStagingTargetPath())
	if err != nil {
		return backend.Staging{}, "", err
	}
	capability, err := parseCapability("volume_capability", r.GetVolumeCapability())
	return backend.Staging{Path: path, Capability: capability}, id, err
}

func parseUnstage(r *csi.NodeUnstageVolumeRequest) (place, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return place{}, err
	}
	path, err := parsePath("staging_target_path", r.GetStagingTargetPath())
	return place{volumeID: id, path: path}, err
}

// nodeGrowth is a parsed NodeExpandVolume request.
type nodeGrowth struct {
	place
	staging string
	size    backend.Range
	// capability is nil when the caller left it out.
	capability *backend.Capability
}

// parseNodeExpand takes a relative path for one where no volume is, like
// parseStats.
func parseNodeExpand(r *csi.NodeExpandVolumeRequest) (nodeGrowth, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return nodeGrowth{}, err
	}
	path, err := parsePath("volume_path", r.GetVolumePath())
	if err != nil && r.GetVolumePath() != "" {
		return nodeGrowth{}, fault.NotFound.Errorf("no volume is there: %w", err)
	}
	if err != nil {
		return nodeGrowth{}, err
	}
	g := nodeGrowth{place: place{volumeID: id, path: path}, staging: r.GetStagingTargetPath()}
	if g.size, err = parseRange(r.GetCapacityRange()); err != nil || r.GetVolumeCapability() == nil {
		return g, err
	}
	capability, err := parseCapability("volume_capability", r.GetVolumeCapability())
	g.capability = &capability
	return g, err
}
