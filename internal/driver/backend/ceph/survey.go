package ceph

import (
	"context"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/rbd"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Allocated implements backend.Surveyor for images. The program has no offset
// to begin at.
func (b *Backend) Allocated(ctx context.Context, id backend.ID, _ int64, visit func(backend.Extent) error) error {
	o, pool, err := b.surveyed(ctx, id)
	if err != nil {
		return err
	}
	return pool.Allocated(ctx, o, visit)
}

// Changed implements backend.Surveyor for images.
func (b *Backend) Changed(
	ctx context.Context,
	base, target backend.ID,
	_ int64,
	visit func(backend.Extent) error,
) error {
	older, err := snapshotOf(base)
	if err != nil {
		return err
	}
	o, pool, err := b.surveyed(ctx, target)
	if err != nil {
		return err
	}
	if older.Volume() != o.Volume() {
		return fault.Invalid.Errorf("snapshots %q and %q are not of the same volume", base, target)
	}
	return pool.Changed(ctx, older, o, visit)
}

// surveyed finds the pool of a snapshot. A snapshot of a subvolume is a
// directory, and nothing there is a byte of a device.
func (b *Backend) surveyed(ctx context.Context, id backend.ID) (handle.Object, rbd.Pool, error) {
	o, err := snapshotOf(id)
	if err != nil {
		return o, rbd.Pool{}, err
	}
	if o.Kind == handle.CephFS {
		return o, rbd.Pool{}, fault.Unsupported.Errorf(
			"snapshot %q is of kind %s, which has files and no blocks; only those of kind %s have this",
			id,
			handle.CephFS,
			handle.RBD,
		)
	}
	pool, err := b.pool(ctx, o.Place)
	return o, pool, err
}
