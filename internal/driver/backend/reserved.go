package backend

import "github.com/purser-csi/purser/internal/driver/reserve"

// Reserved is a backend whose volumes share a filesystem with the records of the driver, and that
// keeps room there for these records.
type Reserved interface {
	Reserve() *reserve.Reserve
}

// Promiser is a backend that promises volumes more space than it has.
type Promiser interface {
	// Promised returns how many bytes all volumes and snapshots may take, and how many can still be
	// promised.
	Promised() (bytes, left int64, err error)
}
