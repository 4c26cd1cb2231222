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
}

// StagingReader is a Stager that knows by itself where a volume is staged.
type StagingReader interface {
	// StagedAs returns the staging path and the access type of a volume; false for one that is not
	// staged. The path is empty where it is not known.
	StagedAs(ctx context.Context, id ID) (staged Staging, found bool, err error)
}

// Limited is a backend of which a node can have only so many volumes at once:
// NodeGetInfoResponse.max_volumes_per_node.
type Limited interface {
	MaxVolumesPerNode() int64
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
	// Health returns the problem of a volume; the zero value for a healthy volume.
	Health(ctx context.Context, id ID) (Problem, error)
}

// Problem is what is wrong with a volume.
type Problem struct {
	Reason  string // CamelCase; programs read it
	Message string
	// Unusable says that no pod can read the volume; else it works in part.
	Unusable bool
}
