package cephfs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/naming"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/record"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/parallel"
)

// snapshot runs a command on a snapshot of a subvolume.
func (f Filesystem) snapshot(ctx context.Context, verb string, o handle.Object, snap string) ([]byte, error) {
	return f.run(ctx, "subvolume", "snapshot", verb, f.Place.Pool, o.Name, snap, groupArg)
}

// CreateSnapshot makes a snapshot. It exists from the moment it has its
// record; the step before can be repeated, and then the older content counts.
func (f Filesystem) CreateSnapshot(
	ctx context.Context,
	o handle.Object,
	r backend.SnapshotRequest,
) (backend.Snapshot, error) {
	takeName, err := naming.Claim(ctx, book{f}, o)
	if err == nil {
		err = takeName()
	}
	if err != nil {
		return backend.Snapshot{}, err
	}
	written := snapshotRecord{Snapshot: record.Snapshot{Name: r.Name}, Bytes: r.SourceBytes}
	text, err := written.text()
	if err != nil {
		return backend.Snapshot{}, err
	}
	if _, err := f.snapshot(ctx, "create", o, o.Snap); err != nil && !errors.Is(err, unix.EEXIST) {
		return backend.Snapshot{}, err
	}
	var created time.Time
	err = parallel.Do(
		func() error {
			_, err := f.run(
				ctx,
				"subvolume",
				"snapshot",
				"metadata",
				"set",
				f.Place.Pool,
				o.Name,
				o.Snap,
				recordKey,
				text,
				groupArg,
			)
			return err
		},
		func() (err error) { created, err = f.created(ctx, o); return err },
	)
	if err != nil {
		return backend.Snapshot{}, err
	}
	return describe(o, written, created)
}

func noSuchSnapshot(o handle.Object) error {
	id, _ := o.ID()
	return fault.NotFound.Errorf("snapshot %.128q does not exist", id)
}

// created says when a snapshot was made; fault.NotFound when there is none.
func (f Filesystem) created(ctx context.Context, o handle.Object) (time.Time, error) {
	var i struct {
		Created string `json:"created_at"`
	}
	err := f.ask(ctx, &i, "subvolume", "snapshot", "info", f.Place.Pool, o.Name, o.Snap, groupArg)
	if isMissing(err) {
		err = noSuchSnapshot(o)
	}
	at, _ := time.Parse("2006-01-02 15:04:05.999999", i.Created)
	return at, err
}

// GetSnapshot describes a snapshot.
func (f Filesystem) GetSnapshot(ctx context.Context, o handle.Object) (backend.Snapshot, error) {
	created, err := f.created(ctx, o)
	if err != nil {
		return backend.Snapshot{}, err
	}
	id, err := o.ID()
	if err != nil {
		return backend.Snapshot{}, err
	}
	written, err := f.snapshotRecord(ctx, o, id)
	if err != nil {
		return backend.Snapshot{}, err
	}
	return describe(o, written, created)
}

func describe(o handle.Object, written snapshotRecord, created time.Time) (backend.Snapshot, error) {
	id, err := o.ID()
	if err != nil {
		return backend.Snapshot{}, err
	}
	source, err := o.Volume().ID()
	return backend.Snapshot{
		ID:        id,
		Name:      written.Name,
		Source:    source,
		SizeBytes: written.Bytes,
		Created:   created,
		Ready:     true,
	}, err
}

// snapshotRecord is empty for a snapshot of a deleted volume where the manager
// does not show the metadata of those (Pacific). A volume that begins with one
// has the size of the source at least, whatever is asked for.
func (f Filesystem) snapshotRecord(ctx context.Context, o handle.Object, id backend.ID) (snapshotRecord, error) {
	out, err := f.run(ctx, "subvolume", "snapshot", "metadata", "get", f.Place.Pool, o.Name, o.Snap, recordKey, groupArg)
	if err == nil {
		return readSnapshotRecord(id, strings.TrimSpace(string(out)))
	}
	if !isMissing(err) {
		return snapshotRecord{}, err
	}
	if i, err := f.info(ctx, o); err != nil || i.State != retained {
		return snapshotRecord{}, errors.Join(err, noSuchSnapshot(o))
	}
	return snapshotRecord{}, nil
}

// DeleteSnapshot removes a snapshot.
func (f Filesystem) DeleteSnapshot(ctx context.Context, o handle.Object) error {
	_, err := f.snapshot(ctx, "rm", o, o.Snap)
	if isMissing(err) {
		return nil
	}
	if errors.Is(err, unix.EAGAIN) {
		return fault.InUse.Errorf("a volume is being copied from the snapshot; try again when it is complete: %w", err)
	}
	if err != nil {
		return err
	}
	return f.forgetName(ctx, o)
}

// ListSnapshots gives the ids of all snapshots. It asks every subvolume.
func (f Filesystem) ListSnapshots(ctx context.Context) (ids []backend.ID, err error) {
	all, err := f.objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		names, err := f.snapshotNames(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !handle.IsSnap(name) {
				continue
			}
			o.Snap = name
			id, err := o.ID()
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b backend.ID) int { return strings.Compare(a.String(), b.String()) })
	return ids, nil
}

func (f Filesystem) snapshotNames(ctx context.Context, o handle.Object) ([]string, error) {
	var all []named
	err := f.ask(ctx, &all, "subvolume", "snapshot", "ls", f.Place.Pool, o.Name, groupArg)
	if isMissing(err) || errors.Is(err, unix.EAGAIN) { // gone, or being copied
		return nil, nil
	}
	return namesOf(all), err
}
