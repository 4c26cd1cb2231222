package backend

import (
	"context"

	"github.com/purser-csi/purser/internal/driver/reserve"
)

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

// SpaceReader is a backend that knows how many bytes each volume takes of the pool, mounted or not.
type SpaceReader interface {
	// Space returns the bytes by volume. A volume that cannot be measured is left out.
	Space(context.Context) (map[ID]int64, error)
}
