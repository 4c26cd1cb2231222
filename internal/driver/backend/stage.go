package backend

import "context"

// Stager is a backend whose volumes are brought to a node once before they are
// published there: STAGE_UNSTAGE_VOLUME. A backend is a Stager or Direct.
type Stager interface {
	// Stage makes the volume available at s.Path: its filesystem, made and
	// grown where needed, is mounted there; with block access the path stays
	// an empty directory. Repeating a Stage is not an error.
	Stage(ctx context.Context, s Staging) error
	// Unstage undoes Stage; it succeeds if nothing is staged. It refuses
	// with fault.InUse while something of the volume is still in use.
	Unstage(ctx context.Context, id ID, path string) error
	// Staged returns the source of the bind mount at a target path: the root of the
	// mounted filesystem, or with block access the device. fault.Unready when the
	// volume is not staged at path.
	Staged(ctx context.Context, id ID, path string, access AccessType) (source string, err error)
}

// Staging asks for a volume at a staging path.
type Staging struct {
	Volume     ID
	Path       string
	Capability Capability
	// VolumeContext is what Volume.Context said when the volume was made.
	VolumeContext map[string]string
}

// Limited is a backend of which a node can have only so many volumes at once:
// NodeGetInfoResponse.max_volumes_per_node.
type Limited interface {
	MaxVolumesPerNode() int64
}

// Local is a backend whose volumes exist on one machine only:
// VOLUME_ACCESSIBILITY_CONSTRAINTS, with the node as the topology.
type Local interface {
	IsLocal() bool
}

// Expander is a backend whose volumes can grow: EXPAND_VOLUME of the
// controller.
type Expander interface {
	// Expand makes the volume as large as the range asks; one that is large
	// enough already stays as it is and is not an error.
	Expand(ctx context.Context, id ID, size Range) (Expansion, error)
}

// Expansion is the result of Expand.
type Expansion struct {
	CapacityBytes int64
	// NodeMustExpand says that NodeExpandVolume has to follow: NodeExpander.
	NodeMustExpand bool
}

// NodeExpander is a backend whose volumes have to be expanded on the node too: EXPAND_VOLUME of the
// node.
type NodeExpander interface {
	// NodeExpand expands the staged filesystem or device to the size of the volume. Where this
	// cannot be done while the volume is in use, the error is fault.InUse
	// and says when it will be: Stage grows as well.
	NodeExpand(ctx context.Context, e NodeExpansion) (capacityBytes int64, err error)
}

// NodeExpansion is a request to expand a volume on the node.
type NodeExpansion struct {
	Volume ID
	// Path is where the volume is published or staged; StagingPath may be
	// empty.
	Path, StagingPath string
	Access            AccessType
	Size              Range
}

// Modifier is a backend whose volumes have parameters that can change:
// MODIFY_VOLUME.
type Modifier interface {
	// CheckMutable says with a fault.Invalid error what is wrong with
	// mutable parameters.
	CheckMutable(map[string]string) error
	// Modify sets them. Parameters that are not named keep their value.
	Modify(ctx context.Context, id ID, mutable map[string]string) error
}

// HealthReader is a backend that notices when a volume is damaged:
// GET_VOLUME_HEALTH.
type HealthReader interface {
	// Health returns the problem of a volume; "" for a healthy volume.
	Health(ctx context.Context, id ID) (problem string, err error)
}

// Namer is a backend that needs more than the name of a volume to find it
// again, and therefore makes ids of its own with MakeID.
type Namer interface {
	// VolumeID gives the id of the volume that a request asks for. The same
	// name with the same parameters gives the same id.
	VolumeID(name string, parameters map[string]string) (ID, error)
	// SnapshotID does so for a snapshot.
	SnapshotID(name string, source ID) (ID, error)
	// ParseID checks an id that came from outside; fault.NotFound for one
	// that this backend cannot have made.
	ParseID(text string) (ID, error)
}

// GroupNamer is a Namer that is a Grouper as well. ParseID takes its ids too.
type GroupNamer interface {
	// GroupID gives the id of the group with this name. The sources are in
	// ascending order.
	GroupID(name string, sources []ID) (ID, error)
	// IsMember says whether the snapshot with this id, if there is one, was
	// made with a group.
	IsMember(id ID) bool
}
