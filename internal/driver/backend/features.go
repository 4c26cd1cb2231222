package backend

import "context"

// Lister is a backend that can enumerate its volumes: LIST_VOLUMES.
type Lister interface {
	// List gives the ids of all volumes in ascending order.
	List(context.Context) ([]ID, error)
}

// Pool is a backend that knows how much room is left: GET_CAPACITY.
type Pool interface {
	// Available gives the bytes that new volumes can have.
	Available(context.Context) (int64, error)
}

// Sized is a Pool whose volumes cannot be of any size:
// GetCapacityResponse.minimum_volume_size.
type Sized interface {
	// LeastSize is that of a volume with these capabilities.
	LeastSize([]Capability) (bytes int64, err error)
}

// Direct is a backend whose volumes can be published without staging.
type Direct interface {
	// Source gives the directory that holds the content of a volume.
	Source(context.Context, ID) (string, error)
}

// UsageReader is a backend that can say how full a volume is:
// GET_VOLUME_STATS.
type UsageReader interface {
	// Usage measures a volume that is published at path.
	Usage(ctx context.Context, id ID, path string) ([]Usage, error)
}

// Unit is what a Usage counts.
type Unit int

// The units.
const (
	Bytes Unit = iota
	Inodes
)

// Usage is one measure of how full a volume is.
type Usage struct {
	Unit                   Unit
	Total, Used, Available int64
}

// Recoverer is a backend that cleans up after a driver that was killed.
type Recoverer interface {
	// Recover is called once, before the first other call and while no
	// other process uses the same state.
	Recover(context.Context) error
}

// Particular is a backend whose volumes differ in the capabilities that they can have, for example
// by their filesystem.
type Particular interface {
	// CheckVolume says what is wrong with a capability for one volume. The
	// error is of the kind fault.Invalid, fault.Unsupported or
	// fault.Incompatible then; Stage would refuse it as well.
	CheckVolume(context.Context, ID, Capability) error
}

// Closer is a backend with resources that must be released when the program ends.
type Closer interface {
	// Close is called once, at the end. Calls that did not end in time can
	// still be running, and may fail.
	Close() error
}

// Checker is a backend that can fail without being called: its answer is that
// of Probe.
type Checker interface {
	// Check gives a fault.Unready error when calls are bound to fail.
	Check(context.Context) error
}
