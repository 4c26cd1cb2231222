package driver

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// The parse functions of this file and of requests.go turn a field of a CSI
// message into a value that the services need not check again. Their errors
// name the field as the CSI spec spells it, the value, and what would do.

// missing is "Missing required field" of the "Error Scheme".
func missing(field string) error {
	return fault.Invalid.Errorf("%s: missing; it is required", field)
}

// parseVolumeID accepts every text: one that no volume can have is "not
// found" later, not invalid, because volumes of another driver or an older
// version may have had such ids.
func parseVolumeID(text string) (string, error) {
	if text == "" {
		return "", missing("volume_id")
	}
	return text, nil
}

// parsePath wants an absolute path (target_path, volume_path: MUST be an
// absolute path in the root filesystem of this process).
func parsePath(field, path string) (string, error) {
	switch {
	case path == "":
		return "", missing(field)
	case !filepath.IsAbs(path):
		return "", fault.Invalid.Errorf("%s %.128q: give an absolute path", field, path)
	case strings.ContainsRune(path, 0):
		return "", fault.Invalid.Errorf("%s %.128q: a path cannot contain a zero byte", field, path)
	case len(path) > maxPath:
		return "", fault.Invalid.Errorf(
			"%s %.128q: has %d bytes, and a path can have %d", field, path, len(path), maxPath,
		)
	default:
		return filepath.Clean(path), nil
	}
}

// parseName follows CreateVolumeRequest.name.
func parseName(name string) (string, error) {
	switch {
	case name == "":
		return "", missing("name")
	case len(name) > maxString:
		return "", fault.Invalid.Errorf("name %.128q: has %d bytes, the CSI spec allows %d", name, len(name), maxString)
	case strings.ContainsFunc(name, isBanned):
		return "", fault.Invalid.Errorf(
			"name %.128q: contains a control character that the CSI spec bans; remove it", name,
		)
	default:
		return name, nil
	}
}

// isBanned is U+0000-U+0008, U+000B, U+000C, U+000E-U+001F, U+007F-U+009F.
func isBanned(r rune) bool {
	switch r {
	case '\t', '\n', '\r':
		return false
	default:
		return r < 0x20 || (r >= 0x7f && r <= 0x9f)
	}
}

// parseRange follows CapacityRange.
func parseRange(size *csi.CapacityRange) (backend.Range, error) {
	if size == nil {
		return backend.Range{}, nil
	}
	required, limit := size.GetRequiredBytes(), size.GetLimitBytes()
	switch {
	case required < 0:
		return backend.Range{}, fault.Invalid.Errorf("capacity_range.required_bytes %d: must not be negative", required)
	case limit < 0:
		return backend.Range{}, fault.Invalid.Errorf("capacity_range.limit_bytes %d: must not be negative", limit)
	case required == 0 && limit == 0:
		return backend.Range{}, fault.Invalid.Errorf(
			"capacity_range: empty; give required_bytes or limit_bytes, or leave the range out",
		)
	case limit != 0 && required > limit:
		// Both fields are valid, but no size is in between: "Unsupported
		// capacity_range" of "CreateVolume Errors".
		return backend.Range{}, fault.OutOfRange.Errorf(
			"capacity_range: required_bytes %d is more than limit_bytes %d; no volume can have both", required, limit)
	default:
		return backend.Range{Required: required, Limit: limit}, nil
	}
}

// provisionerPrefixes begin the keys that a provisioner adds to tell the driver
// for which claim it asks. They are no properties of the volume: a provisioner
// that is restarted with other flags repeats a request without them.
var provisionerPrefixes = []string{"csi.storage.k8s.io/", "purser/"}

// deletionPolicy is a field of snapshot classes that older manifests have as a
// parameter as well. It is for the snapshot-controller.
const deletionPolicy = "deletionPolicy"

func isProvisioners(key string) bool {
	return key == deletionPolicy ||
		slices.ContainsFunc(provisionerPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// parseParameters drops the parameters that the provisioner added.
func parseParameters(field string, parameters map[string]string) (map[string]string, error) {
	var own map[string]string
	size := 0
	for key, value := range parameters {
		size += len(key) + len(value)
		if isProvisioners(key) {
			continue
		}
		if own == nil {
			own = map[string]string{}
		}
		own[key] = value
	}
	if size > maxMap {
		return nil, fault.Invalid.Errorf("%s: have %d bytes, the CSI spec allows %d; shorten them", field, size, maxMap)
	}
	return own, nil
}

// parseCapabilities wants at least one ("REQUIRED": repeated fields).
func parseCapabilities(capabilities []*csi.VolumeCapability) ([]backend.Capability, error) {
	if len(capabilities) == 0 {
		return nil, missing("volume_capabilities")
	}
	if len(capabilities) > maxCapabilities {
		return nil, fault.Invalid.Errorf(
			"volume_capabilities: %d given, and at most %d are possible; leave out what is not needed",
			len(capabilities), maxCapabilities,
		)
	}
	parsed := make([]backend.Capability, 0, len(capabilities))
	for _, c := range capabilities {
		one, err := parseCapability("volume_capabilities", c)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, one)
	}
	return parsed, nil
}

func parseCapability(field string, c *csi.VolumeCapability) (backend.Capability, error) {
	if c == nil {
		return backend.Capability{}, missing(field)
	}
	mode, err := parseMode(field, c.GetAccessMode())
	if err != nil {
		return backend.Capability{}, err
	}
	switch access := c.GetAccessType().(type) {
	case *csi.VolumeCapability_Block:
		return backend.Capability{Type: backend.Block, Mode: mode}, nil
	case *csi.VolumeCapability_Mount:
		return backend.Capability{
			Type:       backend.Mount,
			Mode:       mode,
			FSType:     access.Mount.GetFsType(),
			MountFlags: access.Mount.GetMountFlags(),
			MountGroup: access.Mount.GetVolumeMountGroup(),
		}, nil
	default:
		return backend.Capability{}, fault.Invalid.Errorf("%s.access_type: missing; give mount or block", field)
	}
}

func parseMode(field string, mode *csi.VolumeCapability_AccessMode) (backend.AccessMode, error) {
	if mode.GetMode() == csi.VolumeCapability_AccessMode_UNKNOWN {
		return "", missing(field + ".access_mode")
	}
	name := backend.AccessMode(mode.GetMode().String())
	if slices.Contains(backend.AccessModes, name) {
		return name, nil
	}
	return "", fault.Invalid.Errorf(
		"%s.access_mode %s: not known to this driver; use one of %v",
		field,
		name,
		backend.AccessModes,
	)
}
