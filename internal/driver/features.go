package driver

import (
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/records"
	"github.com/purser-csi/purser/internal/driver/reserve"
)

// features are the optional interfaces of a backend, nil where it lacks one.
// A nil interface is not advertised, and its calls return UNIMPLEMENTED: both
// follow from the same field, so they cannot disagree.
type features struct {
	lister       backend.Lister
	pool         backend.Pool
	sized        backend.Sized
	direct       backend.Direct
	stager       backend.Stager
	usage        backend.UsageReader
	checker      backend.Checker
	expander     backend.Expander
	nodeExpander backend.NodeExpander
	modifier     backend.Modifier
	health       backend.HealthReader
	snapshotter  backend.Snapshotter
	grouper      backend.Grouper
	surveyor     backend.Surveyor
	limited      backend.Limited
	particular   backend.Particular
	// reserve is room for records in a full pool; nil for none.
	reserve  *reserve.Reserve
	location location
	zones    zones
	// attaches says that volumes are attached to a node before it uses them.
	attaches bool
}

// featuresOf asks the backend of a valid configuration.
func featuresOf(c Config) features {
	b, f := c.Backend, features{attaches: c.Attach.Required}
	f.lister, _ = b.(backend.Lister)
	f.pool, _ = b.(backend.Pool)
	f.sized, _ = b.(backend.Sized)
	f.direct, _ = b.(backend.Direct)
	f.stager, _ = b.(backend.Stager)
	f.usage, _ = b.(backend.UsageReader)
	f.checker, _ = b.(backend.Checker)
	f.expander, _ = b.(backend.Expander)
	f.nodeExpander, _ = b.(backend.NodeExpander)
	f.modifier, _ = b.(backend.Modifier)
	f.health, _ = b.(backend.HealthReader)
	f.snapshotter, _ = b.(backend.Snapshotter)
	f.grouper, _ = b.(backend.Grouper)
	if f.snapshotter != nil {
		f.surveyor, _ = b.(backend.Surveyor)
	}
	f.limited, _ = b.(backend.Limited)
	f.particular, _ = b.(backend.Particular)
	if reserved, ok := b.(backend.Reserved); ok {
		f.reserve = reserved.Reserve()
	}
	f.location = locationOf(c)
	if len(c.Zones) > 0 {
		store := records.NewZoneStore(filepath.Join(c.StateDir, "zones"), c.Zones, f.reserve)
		f.zones = zones{names: records.ZoneNames(c.Zones), store: store}
	}
	return f
}

func (f features) pluginCapabilities() []*csi.PluginCapability {
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if f.location.matters() {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	if f.grouper != nil {
		services = append(services, csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE)
	}
	if f.surveyor != nil {
		services = append(services, csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE)
	}
	capabilities := make([]*csi.PluginCapability, 0, len(services)+1)
	for _, s := range services {
		capabilities = append(capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: s}},
		})
	}
	if f.expander != nil {
		// ONLINE is a superset of OFFLINE. Whether a single volume can grow
		// while it is in use is said by the answer of NodeExpandVolume.
		capabilities = append(capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
			VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE},
		}})
	}
	return capabilities
}

func (f features) controllerCapabilities() []*csi.ControllerServiceCapability {
	types := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	add := func(has bool, more ...csi.ControllerServiceCapability_RPC_Type) {
		if has {
			types = append(types, more...)
		}
	}
	add(f.lister != nil, csi.ControllerServiceCapability_RPC_LIST_VOLUMES)
	add(f.attaches, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	add(f.attaches && f.lister != nil, csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES)
	add(f.pool != nil, csi.ControllerServiceCapability_RPC_GET_CAPACITY)
	add(f.expander != nil, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME)
	add(f.modifier != nil, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME)
	add(f.snapshotter != nil, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS, csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME)
	add(f.health != nil, csi.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH)
	add(f.health != nil && f.lister != nil, csi.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH)
	capabilities := make([]*csi.ControllerServiceCapability, 0, len(types))
	for _, t := range types {
		capabilities = append(capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return capabilities
}

func (f features) nodeCapabilities() []*csi.NodeServiceCapability {
	types := []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER}
	if f.stager != nil {
		types = append(types, csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	}
	if f.usage != nil {
		types = append(types, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS)
	}
	if f.nodeExpander != nil {
		types = append(types, csi.NodeServiceCapability_RPC_EXPAND_VOLUME)
	}
	if f.health != nil {
		types = append(types, csi.NodeServiceCapability_RPC_GET_VOLUME_HEALTH)
	}
	if f.checker != nil {
		types = append(types, csi.NodeServiceCapability_RPC_GET_STORAGE_HEALTH)
	}
	capabilities := make([]*csi.NodeServiceCapability, 0, len(types))
	for _, t := range types {
		capabilities = append(capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}},
		})
	}
	return capabilities
}

func (f features) groupCapabilities() []*csi.GroupControllerServiceCapability {
	if f.grouper == nil {
		return nil
	}
	return []*csi.GroupControllerServiceCapability{{
		Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{
			Type: csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
		}},
	}}
}
