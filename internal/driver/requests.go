package driver

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// parseCreate accepts what the advertised capabilities cover. The fields that
// SHALL NOT be specified without a capability are refused rather than
// ignored: the caller would get a volume that is not what it asked for.
func parseCreate(r *csi.CreateVolumeRequest) (backend.Request, error) {
	name, err := parseName(r.GetName())
	if err != nil {
		return backend.Request{}, err
	}
	capabilities, err := parseCapabilities(r.GetVolumeCapabilities())
	if err != nil {
		return backend.Request{}, err
	}
	size, err := parseRange(r.GetCapacityRange())
	if err != nil {
		return backend.Request{}, err
	}
	parameters, err := parseParameters(r.GetParameters())
	if err != nil {
		return backend.Request{}, err
	}
	return backend.Request{
		ID: backend.IDOf(name), Name: name, Size: size, Capabilities: capabilities, Parameters: parameters,
	}, refuseUnadvertised(r)
}

func refuseUnadvertised(r *csi.CreateVolumeRequest) error {
	switch {
	case r.GetVolumeContentSource() != nil:
		return fault.Invalid.Errorf("volume_content_source: this driver makes empty volumes only; leave it out (no dataSource in the claim)")
	case r.GetAccessibilityRequirements() != nil:
		return fault.Invalid.Errorf("accessibility_requirements: this driver does not advertise VOLUME_ACCESSIBILITY_CONSTRAINTS; leave them out")
	case len(r.GetMutableParameters()) > 0:
		return fault.Invalid.Errorf("mutable_parameters: this driver does not advertise MODIFY_VOLUME; leave them out (no volumeAttributesClassName in the claim)")
	default:
		return nil
	}
}

// validation is a parsed ValidateVolumeCapabilities request.
type validation struct {
	volumeID     string
	capabilities []backend.Capability
	parameters   map[string]string
}

func parseValidate(r *csi.ValidateVolumeCapabilitiesRequest) (validation, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return validation{}, err
	}
	capabilities, err := parseCapabilities(r.GetVolumeCapabilities())
	if err != nil {
		return validation{}, err
	}
	parameters, err := parseParameters(r.GetParameters())
	return validation{volumeID: id, capabilities: capabilities, parameters: parameters}, err
}

// wish is a parsed GetCapacity request.
type wish struct {
	capabilities []backend.Capability
	parameters   map[string]string
}

func parseCapacity(r *csi.GetCapacityRequest) (wish, error) {
	if r.GetAccessibleTopology() != nil {
		return wish{}, fault.Invalid.Errorf("accessible_topology: this driver does not advertise VOLUME_ACCESSIBILITY_CONSTRAINTS; leave it out")
	}
	parameters, err := parseParameters(r.GetParameters())
	if err != nil || len(r.GetVolumeCapabilities()) == 0 {
		return wish{parameters: parameters}, err
	}
	capabilities, err := parseCapabilities(r.GetVolumeCapabilities())
	return wish{capabilities: capabilities, parameters: parameters}, err
}

// publishing is a parsed NodePublishVolume request.
type publishing struct {
	volumeID   string
	target     string
	capability backend.Capability
	readOnly   bool
}

func parsePublish(r *csi.NodePublishVolumeRequest) (publishing, error) {
	id, err := parseVolumeID(r.GetVolumeId())
	if err != nil {
		return publishing{}, err
	}
	target, err := parsePath("target_path", r.GetTargetPath())
	if err != nil {
		return publishing{}, err
	}
	capability, err := parseCapability("volume_capability", r.GetVolumeCapability())
	return publishing{volumeID: id, target: target, capability: capability, readOnly: r.GetReadonly()}, err
}

// place is a volume and a path: NodeUnpublishVolume and NodeGetVolumeStats.
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
