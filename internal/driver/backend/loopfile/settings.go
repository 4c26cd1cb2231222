package loopfile

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// The parameters of a storage class.
const (
	provisioningKey = "provisioning"
	discardKey      = "discard"
	overCommitKey   = "overCommit"
	// kubernetesPrefix is the prefix of the parameters that provisioners add.
	kubernetesPrefix = "csi.storage.k8s.io/"
)

var (
	parameterKeys = []string{discardKey, overCommitKey, provisioningKey}
	mutableKeys   = []string{discardKey, provisioningKey}
)

// settings are the parsed parameters of a volume.
type settings struct {
	// thick volumes have all their space from the beginning.
	thick bool
	// discard lets deleted files make room in the pool.
	discard bool
	// overCommit is a limit lower than that of the backend; 0 is none.
	overCommit float64
}

func (s settings) space() filesystem.Space {
	if s.thick {
		return filesystem.Allocated
	}
	return filesystem.Sparse
}

// settingsOf reads parameters; the mutable ones win.
func settingsOf(parameters, mutable map[string]string) (settings, error) {
	all := maps.Clone(parameters)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, mutable)
	s := settings{discard: true}
	switch value := all[provisioningKey]; value {
	case "", "thin":
	case "thick":
		s.thick, s.discard = true, false
	default:
		return s, fault.Invalid.Errorf("parameter %s: %.64q is neither \"thin\" nor \"thick\"", provisioningKey, value)
	}
	if value := all[discardKey]; value != "" {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return s, fault.Invalid.Errorf("parameter %s: %.64q is neither \"true\" nor \"false\"", discardKey, value)
		}
		if on && s.thick {
			return s, fault.Invalid.Errorf(
				"parameter %s: \"true\" would give back the space that %s: \"thick\" takes; remove one of them",
				discardKey,
				provisioningKey,
			)
		}
		s.discard = on
	}
	if value := all[overCommitKey]; value != "" {
		limit, err := strconv.ParseFloat(value, 64)
		if err != nil || !(limit > 0 && limit <= 1000) {
			return s, fault.Invalid.Errorf(
				"parameter %s: %.64q is not a number above 0 and up to 1000", overCommitKey, value,
			)
		}
		s.overCommit = limit
	}
	return s, nil
}

// refuseUnknown returns an error with the unknown and the known parameters.
func refuseUnknown(field string, given map[string]string, known []string) error {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, key) && !strings.HasPrefix(key, kubernetesPrefix) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fault.Invalid.Errorf("%s: unknown keys %.128q; the known ones are %q", field, unknown, known)
}

// CheckParameters implements backend.Rules.
func (b *Backend) CheckParameters(parameters map[string]string) error {
	if err := refuseUnknown("parameters", parameters, parameterKeys); err != nil {
		return err
	}
	_, err := settingsOf(parameters, nil)
	return err
}

// CheckMutable implements backend.Modifier.
func (b *Backend) CheckMutable(mutable map[string]string) error {
	if err := refuseUnknown("mutable_parameters", mutable, mutableKeys); err != nil {
		return err
	}
	_, err := settingsOf(nil, mutable)
	return err
}

// CheckCapability implements backend.Rules. All access modes are accepted: a
// volume is on one machine, and all its pods there use the same mount.
func (b *Backend) CheckCapability(c backend.Capability) error {
	if c.Type == backend.Block {
		return nil
	}
	if c.MountGroup != "" {
		return fault.Invalid.Errorf(
			"mount.volume_mount_group %.64q: not supported (VOLUME_MOUNT_GROUP is not advertised); leave it empty",
			c.MountGroup,
		)
	}
	t, err := filesystem.Parse(c.FSType)
	if err != nil {
		return fault.Invalid.Errorf("mount.%w", err)
	}
	return filesystem.CheckOptions(t, c.MountFlags)
}

// filesystemOf is what a volume with these capabilities holds: Nothing when it
// is only to be used as a block device.
func filesystemOf(capabilities []backend.Capability) (filesystem.Type, error) {
	found, mounted := filesystem.Nothing, false
	for _, c := range capabilities {
		if c.Type != backend.Mount {
			continue
		}
		mounted = true
		t, err := filesystem.Parse(c.FSType)
		if err != nil {
			return found, err
		}
		if found != filesystem.Nothing && t != filesystem.Nothing && t != found {
			return found, fault.Invalid.Errorf(
				"mount.fs_type: a volume cannot be both %s and %s; ask for one of them", found, t,
			)
		}
		if t != filesystem.Nothing {
			found = t
		}
	}
	if mounted && found == filesystem.Nothing {
		found = filesystem.Default
	}
	return found, nil
}
