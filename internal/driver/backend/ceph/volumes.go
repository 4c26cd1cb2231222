package ceph

import (
	"context"
	"slices"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/capacity"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/cephfs"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/rbd"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// VolumeID implements backend.Namer.
func (b *Backend) VolumeID(name string, parameters map[string]string) (backend.ID, error) {
	s, err := read(parameters)
	if err != nil {
		return backend.ID{}, err
	}
	return handle.Volume(s.place, name).ID()
}

// SnapshotID implements backend.Namer.
func (b *Backend) SnapshotID(name string, source backend.ID) (backend.ID, error) {
	o, err := volumeOf(source)
	if err != nil {
		return backend.ID{}, err
	}
	return handle.Snapshot(o, name).ID()
}

// ParseID implements backend.Namer.
func (b *Backend) ParseID(text string) (backend.ID, error) {
	o, err := handle.Parse(text)
	if err != nil {
		return backend.ID{}, err
	}
	return o.ID()
}

// volumeOf reads the id of a volume; that of a snapshot names none.
func volumeOf(id backend.ID) (handle.Object, error) {
	o, err := handle.Of(id)
	if err == nil && !o.IsVolume() {
		err = backend.NoSuchVolume(id.String())
	}
	return o, err
}

// Create implements backend.Volumes.
func (b *Backend) Create(ctx context.Context, r backend.Request) (backend.Volume, error) {
	s, err := read(r.Parameters)
	if err != nil {
		return backend.Volume{}, err
	}
	for _, c := range r.Capabilities {
		if err := checkKind(s.place.Kind, c); err != nil {
			return backend.Volume{}, err
		}
	}
	o, err := volumeOf(r.ID)
	if err != nil {
		return backend.Volume{}, err
	}
	least, err := leastFor(s.place.Kind, r)
	if err != nil {
		return backend.Volume{}, err
	}
	bytes, err := chooseSize(r.Size, least)
	if err != nil {
		return backend.Volume{}, err
	}
	if s.place.Kind == handle.CephFS {
		return b.createSubvolume(ctx, s, cephfs.Blueprint{Object: o, Request: r, Bytes: bytes, DataPool: s.dataPool})
	}
	return b.createImage(
		ctx,
		s,
		rbd.Blueprint{Object: o, Request: r, Bytes: bytes, DataPool: s.dataPool, Features: s.features},
	)
}

func (b *Backend) createImage(ctx context.Context, s settings, plan rbd.Blueprint) (backend.Volume, error) {
	pool, err := b.pool(ctx, s.place)
	if err != nil {
		return backend.Volume{}, err
	}
	if err := pool.Create(ctx, plan); err != nil {
		return backend.Volume{}, err
	}
	return made(plan.Request, plan.Bytes), nil
}

// made describes a new volume, without a further call to the cluster.
func made(r backend.Request, bytes int64) backend.Volume {
	return backend.Volume{
		ID: r.ID, Name: r.Name, CapacityBytes: bytes, Capabilities: r.Capabilities, Parameters: r.Parameters,
		Source: r.Source,
	}
}

func (b *Backend) createSubvolume(ctx context.Context, s settings, plan cephfs.Blueprint) (backend.Volume, error) {
	if len(plan.Request.Mutable) > 0 {
		return backend.Volume{}, unsupported("mutable_parameters")
	}
	fs, err := b.filesystem(ctx, s.place)
	if err != nil {
		return backend.Volume{}, err
	}
	if err := fs.Create(ctx, plan); err != nil {
		return backend.Volume{}, err
	}
	return made(plan.Request, plan.Bytes), nil
}

// Get implements backend.Volumes.
func (b *Backend) Get(ctx context.Context, id backend.ID) (backend.Volume, error) {
	o, err := volumeOf(id)
	if err != nil {
		return backend.Volume{}, err
	}
	if o.Kind == handle.CephFS {
		fs, err := b.filesystem(ctx, o.Place)
		if err != nil {
			return backend.Volume{}, err
		}
		return fs.Get(ctx, o)
	}
	pool, err := b.pool(ctx, o.Place)
	if err != nil {
		return backend.Volume{}, err
	}
	return pool.Get(ctx, o)
}

// Delete implements backend.Volumes.
func (b *Backend) Delete(ctx context.Context, id backend.ID) error {
	o, err := volumeOf(id)
	if err != nil {
		return nil //nolint:nilerr // No volume has such an id.
	}
	if o.Kind == handle.CephFS {
		fs, err := b.filesystem(ctx, o.Place)
		if err != nil {
			return err
		}
		return fs.Delete(ctx, o)
	}
	pool, err := b.pool(ctx, o.Place)
	if err != nil {
		return err
	}
	return b.sweepAfter(ctx, pool, pool.Delete(ctx, o))
}

// sweepAfter sweeps the trash of the pool after a deletion.
func (b *Backend) sweepAfter(ctx context.Context, pool rbd.Pool, err error) error {
	if err == nil {
		b.trash.Sweep(ctx, pool)
	}
	return err
}

// List implements backend.Lister, for the places where volumes were seen.
func (b *Backend) List(ctx context.Context) (all []backend.ID, err error) {
	return b.listEverywhere(ctx, func(p handle.Place) ([]backend.ID, error) {
		if p.Kind == handle.CephFS {
			fs, err := b.filesystem(ctx, p)
			if err != nil {
				return nil, err
			}
			return fs.List(ctx)
		}
		pool, err := b.pool(ctx, p)
		if err != nil {
			return nil, err
		}
		return pool.List(ctx)
	})
}

// listEverywhere fails when one place does: a list that leaves out volumes
// says that they are gone.
func (b *Backend) listEverywhere(
	_ context.Context,
	list func(handle.Place) ([]backend.ID, error),
) (all []backend.ID, err error) {
	places, err := b.reach.places()
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		some, err := list(p)
		if fault.NotFound.Is(err) { // the pool itself is gone
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b backend.ID) int { return strings.Compare(a.String(), b.String()) })
	return all, nil
}

// Available implements backend.Pool: the free space of the known place that has most. AvailableFor
// is for one class.
func (b *Backend) Available(ctx context.Context) (most int64, err error) {
	places, err := b.reach.places()
	if err != nil {
		return 0, err
	}
	for _, p := range places {
		room, err := b.room(ctx, settings{place: p})
		if fault.NotFound.Is(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		most = max(most, room)
	}
	return most, nil
}

// AvailableFor gives the room for volumes of a class.
func (b *Backend) AvailableFor(ctx context.Context, parameters map[string]string) (int64, error) {
	if len(parameters) == 0 {
		return b.Available(ctx)
	}
	s, err := read(parameters)
	if err != nil {
		return 0, err
	}
	room, err := b.room(ctx, s)
	if fault.NotFound.Is(err) { // no such pool: no room in it
		return 0, nil
	}
	return room, err
}

func (b *Backend) room(ctx context.Context, s settings) (int64, error) {
	pool := s.place.Pool
	if s.place.Kind == handle.CephFS && s.dataPool == "" {
		fs, err := b.filesystem(ctx, s.place)
		if err != nil {
			return 0, err
		}
		if pool, err = fs.DataPool(ctx); err != nil {
			return 0, err
		}
	}
	if s.dataPool != "" {
		pool = s.dataPool
	}
	access, err := b.reach.access(ctx, s.place)
	if err != nil {
		return 0, err
	}
	return capacity.Of(ctx, b.witness(s.place), access, pool)
}

// Expand implements backend.Expander. An image that is in use grows at once;
// what is on it is for the node.
func (b *Backend) Expand(ctx context.Context, id backend.ID, size backend.Range) (backend.Expansion, error) {
	o, err := volumeOf(id)
	if err != nil {
		return backend.Expansion{}, err
	}
	bytes, err := chooseSize(size, 0)
	if err != nil {
		return backend.Expansion{}, err
	}
	if o.Kind == handle.CephFS {
		fs, err := b.filesystem(ctx, o.Place)
		if err != nil {
			return backend.Expansion{}, err
		}
		now, err := fs.Expand(ctx, o, bytes)
		return backend.Expansion{CapacityBytes: now}, err
	}
	pool, err := b.pool(ctx, o.Place)
	if err != nil {
		return backend.Expansion{}, err
	}
	now, err := pool.Expand(ctx, o, bytes)
	return backend.Expansion{CapacityBytes: now, NodeMustExpand: true}, err
}

// Modify implements backend.Modifier.
func (b *Backend) Modify(ctx context.Context, id backend.ID, mutable map[string]string) error {
	o, err := volumeOf(id)
	if err != nil {
		return err
	}
	if o.Kind == handle.CephFS {
		return unsupported("mutable_parameters")
	}
	pool, err := b.pool(ctx, o.Place)
	if err != nil {
		return err
	}
	return pool.SetLimits(ctx, o, mutable)
}
