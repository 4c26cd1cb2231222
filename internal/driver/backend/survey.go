package backend

import "context"

// Surveyor is a Snapshotter that knows which parts of a snapshot hold data:
// SNAPSHOT_METADATA_SERVICE. Backup programs read only these parts.
//
// Both methods visit the parts in ascending order, none twice, and end with
// the error that a visit gives. A part may be larger than its data,
// never smaller, and may touch the next one. Parts that end at or before the
// offset from may be left out.
type Surveyor interface {
	// Allocated visits the parts that may hold something else than zeros.
	Allocated(ctx context.Context, id ID, from int64, visit func(Extent) error) error
	// Changed visits the parts in which target may differ from base, a
	// snapshot of the same volume that was made before. Where base is shorter
	// it counts as zeros. The error is of the kind fault.Invalid where these
	// two cannot be compared.
	Changed(ctx context.Context, base, target ID, from int64, visit func(Extent) error) error
}

// Extent is a part of a snapshot, in bytes.
type Extent struct{ Offset, Length int64 }

// End is the first byte behind it.
func (e Extent) End() int64 { return e.Offset + e.Length }
