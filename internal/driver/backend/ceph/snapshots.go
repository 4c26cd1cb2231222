package ceph

import (
	"context"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// CanClone implements backend.Cloner.
func (b *Backend) CanClone() bool { return true }

// snapshots is what both kinds do.
type snapshots interface {
	CreateSnapshot(ctx context.Context, o handle.Object, r backend.SnapshotRequest) (backend.Snapshot, error)
	GetSnapshot(ctx context.Context, o handle.Object) (backend.Snapshot, error)
	ListSnapshots(ctx context.Context) ([]backend.ID, error)
}

func (b *Backend) snapshots(ctx context.Context, p handle.Place) (snapshots, error) {
	if p.Kind == handle.CephFS {
		return b.filesystem(ctx, p)
	}
	return b.pool(ctx, p)
}

func noSuchSnapshot(id backend.ID) error {
	return fault.NotFound.Errorf("snapshot %.128q does not exist", id)
}

// snapshotOf reads the id of a snapshot.
func snapshotOf(id backend.ID) (handle.Object, error) {
	o, err := handle.Of(id)
	if err != nil || o.IsVolume() || o.IsGroup {
		return o, noSuchSnapshot(id)
	}
	return o, nil
}

// CreateSnapshot implements backend.Snapshotter.
func (b *Backend) CreateSnapshot(ctx context.Context, r backend.SnapshotRequest) (backend.Snapshot, error) {
	if len(r.Parameters) > 0 {
		return backend.Snapshot{}, fault.Invalid.Errorf(
			"parameters: snapshots take none, and there are %d; remove them from the snapshot class",
			len(r.Parameters),
		)
	}
	o, err := snapshotOf(r.ID)
	if err != nil {
		return backend.Snapshot{}, err
	}
	in, err := b.snapshots(ctx, o.Place)
	if err != nil {
		return backend.Snapshot{}, err
	}
	return in.CreateSnapshot(ctx, o, r)
}

// GetSnapshot implements backend.Snapshotter.
func (b *Backend) GetSnapshot(ctx context.Context, id backend.ID) (backend.Snapshot, error) {
	o, err := snapshotOf(id)
	if err != nil {
		return backend.Snapshot{}, err
	}
	in, err := b.snapshots(ctx, o.Place)
	if err != nil {
		return backend.Snapshot{}, err
	}
	return in.GetSnapshot(ctx, o)
}

// DeleteSnapshot implements backend.Snapshotter.
func (b *Backend) DeleteSnapshot(ctx context.Context, id backend.ID) error {
	o, err := snapshotOf(id)
	if err != nil {
		return nil //nolint:nilerr // No snapshot has such an id.
	}
	if o.Kind == handle.CephFS {
		fs, err := b.filesystem(ctx, o.Place)
		if err != nil {
			return err
		}
		return fs.DeleteSnapshot(ctx, o)
	}
	pool, err := b.pool(ctx, o.Place)
	if err != nil {
		return err
	}
	return b.sweepAfter(ctx, pool, pool.DeleteSnapshot(ctx, o))
}

// ListSnapshots implements backend.Snapshotter.
func (b *Backend) ListSnapshots(ctx context.Context) ([]backend.ID, error) {
	return b.listEverywhere(ctx, func(p handle.Place) ([]backend.ID, error) {
		in, err := b.snapshots(ctx, p)
		if err != nil {
			return nil, err
		}
		return in.ListSnapshots(ctx)
	})
}

// GroupID implements backend.GroupNamer.
func (b *Backend) GroupID(name string, sources []backend.ID) (backend.ID, error) {
	all, err := members(sources)
	if err != nil {
		return backend.ID{}, err
	}
	return handle.Group(all[0], name).ID()
}

// IsMember implements backend.GroupNamer.
func (b *Backend) IsMember(id backend.ID) bool {
	o, err := snapshotOf(id)
	return err == nil && o.IsMember()
}

// members reads the volumes of a group: images of one pool.
func members(sources []backend.ID) (all []handle.Object, err error) {
	for _, id := range sources {
		o, err := volumeOf(id)
		if err != nil {
			return nil, err
		}
		if o.Kind == handle.CephFS {
			return nil, unsupported("source_volume_ids")
		}
		if len(all) > 0 && o.Place != all[0].Place {
			return nil, fault.Invalid.Errorf(
				"source_volume_ids: %q is in %s and %q in %s; a group is of one pool",
				id,
				o.Place,
				sources[0],
				all[0].Place,
			)
		}
		all = append(all, o)
	}
	if len(all) == 0 {
		return nil, fault.Invalid.Errorf("source_volume_ids: missing; name at least one volume")
	}
	return all, nil
}

func groupOf(id backend.ID) (handle.Object, error) {
	o, err := handle.Of(id)
	if err != nil || !o.IsGroup {
		return o, fault.NotFound.Errorf("group snapshot %.128q does not exist", id)
	}
	return o, nil
}

// CreateGroup implements backend.Grouper.
func (b *Backend) CreateGroup(ctx context.Context, r backend.GroupRequest) (backend.Group, error) {
	if len(r.Parameters) > 0 {
		return backend.Group{}, fault.Invalid.Errorf(
			"parameters: group snapshots take none, and there are %d; remove them from the class",
			len(r.Parameters),
		)
	}
	g, err := groupOf(r.ID)
	if err != nil {
		return backend.Group{}, err
	}
	sources, err := members(r.Sources)
	if err != nil {
		return backend.Group{}, err
	}
	pool, err := b.pool(ctx, g.Place)
	if err != nil {
		return backend.Group{}, err
	}
	return pool.CreateGroup(ctx, g, r, sources)
}

// GetGroup implements backend.Grouper.
func (b *Backend) GetGroup(ctx context.Context, id backend.ID) (backend.Group, error) {
	g, err := groupOf(id)
	if err != nil {
		return backend.Group{}, err
	}
	pool, err := b.pool(ctx, g.Place)
	if err != nil {
		return backend.Group{}, err
	}
	return pool.GetGroup(ctx, g)
}

// DeleteGroup implements backend.Grouper.
func (b *Backend) DeleteGroup(ctx context.Context, id backend.ID) error {
	g, err := groupOf(id)
	if err != nil {
		return nil //nolint:nilerr // No group has such an id.
	}
	pool, err := b.pool(ctx, g.Place)
	if err != nil {
		return err
	}
	return b.sweepAfter(ctx, pool, pool.DeleteGroup(ctx, g))
}
