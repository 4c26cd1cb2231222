package ceph

import (
	"maps"
	"regexp"
	"slices"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/rbd"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// Parameters of a storage class.
const (
	kindKey     = "kind"
	clusterKey  = "clusterID"
	poolKey     = "pool"
	dataPoolKey = "dataPool"
	featuresKey = "imageFeatures"
	fsNameKey   = "fsName"
)

// defaultCluster is what Ceph itself calls a cluster without a name.
const defaultCluster = "ceph"

// keysOf are the parameters of each kind.
var keysOf = map[handle.Kind][]string{
	handle.RBD:    {kindKey, clusterKey, poolKey, dataPoolKey, featuresKey},
	handle.CephFS: {kindKey, clusterKey, fsNameKey, dataPoolKey},
}

// settings are the parameters of a class.
type settings struct {
	place              handle.Place
	dataPool, features string
}

var (
	optionalPool = regexp.MustCompile(`^([a-zA-Z0-9][a-zA-Z0-9._-]{0,127})?$`)
	featureList  = regexp.MustCompile(`^([a-z][a-z-]*(,[a-z][a-z-]*)*)?$`)
)

// read reads the parameters of a class; fault.Invalid with the wrong ones.
func read(parameters map[string]string) (settings, error) {
	kind := handle.Kind(parameters[kindKey])
	if kind == "" {
		kind = handle.RBD
	}
	keys, known := keysOf[kind]
	if !known {
		return settings{}, fault.Invalid.Errorf(
			"parameters: %s %.32q is not known; there are %s and %s",
			kindKey,
			kind,
			handle.RBD,
			handle.CephFS,
		)
	}
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		if !slices.Contains(keys, key) {
			return settings{}, fault.Invalid.Errorf(
				"parameters: unknown key %.64q; %s volumes have %q, remove it from the storage class",
				key,
				kind,
				keys,
			)
		}
	}
	s := settings{
		place:    handle.Place{Kind: kind, Cluster: parameters[clusterKey], Pool: parameters[poolKey]},
		dataPool: parameters[dataPoolKey], features: parameters[featuresKey],
	}
	if kind == handle.CephFS {
		s.place.Pool = parameters[fsNameKey]
	}
	if s.place.Cluster == "" {
		s.place.Cluster = defaultCluster
	}
	switch {
	case !optionalPool.MatchString(s.dataPool):
		return settings{}, fault.Invalid.Errorf("parameters: %s %.64q is no name of a pool", dataPoolKey, s.dataPool)
	case !featureList.MatchString(s.features):
		return settings{}, fault.Invalid.Errorf(
			"parameters: %s %.64q must be names with commas between them, such as layering,exclusive-lock",
			featuresKey,
			s.features,
		)
	}
	return s, s.place.Check()
}

// CheckParameters implements backend.Rules. Without any parameters the call is about no class;
// VolumeID refuses such a class.
func (b *Backend) CheckParameters(parameters map[string]string) error {
	if len(parameters) == 0 {
		return nil
	}
	_, err := read(parameters)
	return err
}

// CheckCapability implements backend.Rules: what neither kind can do.
func (b *Backend) CheckCapability(c backend.Capability) error {
	if c.MountGroup != "" {
		return fault.Invalid.Errorf(
			"mount.volume_mount_group %q: not supported (VOLUME_MOUNT_GROUP is not advertised); leave it empty",
			c.MountGroup,
		)
	}
	if c.Type == backend.Block {
		return nil
	}
	if _, err := filesystem.Parse(c.FSType); err != nil {
		return err
	}
	return filesystem.CheckOptions(c.MountFlags)
}

// checkKind says what is wrong with a capability for volumes of one kind.
func checkKind(k handle.Kind, c backend.Capability) error {
	several := c.Mode == backend.MultiNodeMultiWriter || c.Mode == backend.MultiNodeSingleWriter
	switch {
	case k == handle.CephFS && c.Type == backend.Block:
		return fault.Invalid.Errorf(
			"access_type %s: a subvolume of CephFS is no block device; ask for a mount volume, or for a class of kind %s",
			c.Type,
			handle.RBD,
		)
	case k == handle.CephFS && c.FSType != "":
		return fault.Invalid.Errorf(
			"mount.fs_type %q: CephFS is the filesystem; leave fs_type empty (no csi.storage.k8s.io/fstype in the storage class)",
			c.FSType,
		)
	case k == handle.RBD && c.Type == backend.Mount && several:
		return fault.Invalid.Errorf(
			"access_mode %s: a filesystem on an image would be destroyed by several nodes that write; ask for a block volume, for one node, or for a class of kind %s",
			c.Mode,
			handle.CephFS,
		)
	default:
		return nil
	}
}

// CheckMutable implements backend.Modifier.
func (b *Backend) CheckMutable(mutable map[string]string) error { return rbd.CheckLimits(mutable) }
