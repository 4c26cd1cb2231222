package driver

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// parseCreate accepts what the advertised capabilities cover. The fields that
// SHALL NOT be specified without a capability are refused rather than
// ignored: the caller would get another volume than the requested one.
func (f features) parseCreate(r *csi.CreateVolumeRequest) (backend.Request, error) {
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
	parameters, err := parseParameters("parameters", r.GetParameters())
	if err != nil {
		return backend.Request{}, err
	}
	mutable, err := f.parseMutable(r.GetMutableParameters())
	if err != nil {
		return backend.Request{}, err
	}
	source, err := f.parseSource(r.GetVolumeContentSource())
	if err != nil {
		return backend.Request{}, err
	}
	if err := f.location.check(r.GetAccessibilityRequirements()); err != nil && !f.zones.exist() {
		return backend.Request{}, err
	}
	return backend.Request{
		ID: backend.IDOf(name), Name: name, Size: size, Capabilities: capabilities,
		Parameters: parameters, Mutable: mutable, Source: source,
	}, nil
}

// parseMutable lets the backend check mutable parameters before the volume is created or changed.
func (f features) parseMutable(parameters map[string]string) (map[string]string, error) {
	if len(parameters) == 0 {
		return nil, nil
	}
	if f.modifier == nil {
		return nil, fault.Invalid.Errorf(
			"mutable_parameters: this driver does not advertise MODIFY_VOLUME; leave them out (no " +
				"volumeAttributesClassName in the claim)",
		)
	}
	own, err := parseParameters("mutable_parameters", parameters)
	if err != nil {
		return nil, err
	}
	return own, f.modifier.CheckMutable(own)
}

// parseSource gives fault.NotFound for a source that this driver cannot have
// made ("CreateVolume Errors": source does not exist).
func (f features) parseSource(source *csi.VolumeContentSource) (backend.Source, error) {
	switch from := source.GetType().(type) {
	case nil:
		if source != nil {
			return backend.Source{}, missing("volume_content_source.type")
		}
		return backend.Source{}, nil
	case *csi.VolumeContentSource_Snapshot:
		return f.parseSnapshotSource(from.Snapshot.GetSnapshotId())
	case *csi.VolumeContentSource_Volume:
		return f.parseVolumeSource(from.Volume.GetVolumeId())
	default:
		return backend.Source{}, fault.Invalid.Errorf(
			"volume_content_source: %T is not known to this driver; give a snapshot or a volume", from,
		)
	}
}

func (f features) parseSnapshotSource(text string) (backend.Source, error) {
	if f.snapshotter == nil {
		return backend.Source{}, fault.Invalid.Errorf(
			"volume_content_source: this driver does not advertise CREATE_DELETE_SNAPSHOT; leave it out (no " +
				"dataSource in the claim)",
		)
	}
	if text == "" {
		return backend.Source{}, missing("volume_content_source.snapshot.snapshot_id")
	}
	id, err := backend.ParseID(text)
	if err != nil {
		return backend.Source{}, noSuchSnapshot(text)
	}
	return backend.Source{Snapshot: id}, nil
}

func (f features) parseVolumeSource(text string) (backend.Source, error) {
	if f.snapshotter == nil {
		return backend.Source{}, fault.Invalid.Errorf(
			"volume_content_source: this driver does not advertise CLONE_VOLUME; leave it out (no dataSource in the " +
				"claim)",
		)
	}
	if text == "" {
		return backend.Source{}, missing("volume_content_source.volume.volume_id")
	}
	id, err := backend.ParseID(text)
	return backend.Source{Volume: id}, err
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
	parameters, err := parseParameters("parameters", r.GetParameters())
	return validation{volumeID: id, capabilities: capabilities, parameters: parameters}, err
}

// wish is a parsed GetCapacity request.
type wish struct {
	capabilities []backend.Capability
	parameters   map[string]string
	// elsewhere says that it is about a place where no volume can be.
	elsewhere bool
	zones     []string
}

func (f features) parseCapacity(r *csi.GetCapacityRequest) (wish, error) {
	if r.GetAccessibleTopology() != nil && !f.location.matters() {
		return wish{}, fault.Invalid.Errorf(
			"accessible_topology: this driver does not advertise VOLUME_ACCESSIBILITY_CONSTRAINTS; leave it out",
		)
	}
	w := wish{elsewhere: f.location.matters() && !f.location.covers(r.GetAccessibleTopology())}
	if f.zones.exist() {
		w.zones = f.zones.at(r.GetAccessibleTopology())
		w.elsewhere = len(w.zones) == 0
	}
	var err error
	if w.parameters, err = parseParameters("parameters", r.GetParameters()); err != nil ||
		len(r.GetVolumeCapabilities()) == 0 {
		return w, err
	}
	w.capabilities, err = parseCapabilities(r.GetVolumeCapabilities())
	return w, err
}
