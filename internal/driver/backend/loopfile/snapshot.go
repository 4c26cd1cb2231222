package loopfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// snapshotDir is where a snapshot is: in its group if it has one.
func (b *Backend) snapshotDir(id backend.ID) string {
	own := filepath.Join(b.snapshots, id.String())
	if exists(own) {
		return own
	}
	// An id has no character that Glob takes for a pattern.
	if found, err := filepath.Glob(filepath.Join(b.groups, "*", id.String())); err == nil && len(found) > 0 {
		return found[0]
	}
	return own
}

// CreateSnapshot implements backend.Snapshotter.
func (b *Backend) CreateSnapshot(ctx context.Context, r backend.SnapshotRequest) (backend.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return backend.Snapshot{}, err
	}
	return inBackground(
		ctx,
		b,
		snapshotting,
		r.ID,
		r,
		func(ctx context.Context) (backend.Snapshot, error) { return b.createSnapshot(ctx, r) },
	)
}

func (b *Backend) createSnapshot(ctx context.Context, r backend.SnapshotRequest) (backend.Snapshot, error) {
	if err := refuseUnknown("parameters", r.Parameters, nil); err != nil {
		return backend.Snapshot{}, err
	}
	_, space, err := b.look(r.Source)
	if err != nil {
		return backend.Snapshot{}, err
	}
	if err := b.reserve.Admit(); err != nil {
		return backend.Snapshot{}, classify("create snapshot "+r.ID.String(), err)
	}
	if err := b.promise(b.snapshotEntry(r.ID), space.Allocated, settings{}); err != nil {
		return backend.Snapshot{}, err
	}
	m := snapshotMetadata{Format: backend.MetadataFormat, Name: r.Name, Source: r.Source.String(), Least: r.SourceLeast}
	if err := b.buildSnapshot(ctx, r, &m); err != nil {
		b.promises.Remove(b.snapshotEntry(r.ID))
		return backend.Snapshot{}, classify("create snapshot "+r.ID.String(), err)
	}
	b.account(b.snapshotEntry(r.ID))
	return b.describe(r.ID, m)
}

func (b *Backend) buildSnapshot(ctx context.Context, r backend.SnapshotRequest, m *snapshotMetadata) error {
	dir, err := os.MkdirTemp(b.temp, "snapshot-*")
	if err != nil {
		return err
	}
	// Before the copy: nothing that is written later is in it.
	m.Created = time.Now().UTC()
	method, err := b.copyVolume(ctx, r.Source, filepath.Join(dir, imageFile))
	if err == nil {
		logMethod(ctx, method, "snapshot "+r.ID.String())
		err = backend.WriteJSON(filepath.Join(dir, snapshotFile), dir, m)
	}
	if err == nil {
		err = durable.Rename(dir, filepath.Join(b.snapshots, r.ID.String()))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return nil
}

// GetSnapshot implements backend.Snapshotter.
func (b *Backend) GetSnapshot(_ context.Context, id backend.ID) (backend.Snapshot, error) {
	m, err := b.readSnapshot(id)
	if err != nil {
		return backend.Snapshot{}, err
	}
	return b.describe(id, m)
}

func (b *Backend) describe(id backend.ID, m snapshotMetadata) (backend.Snapshot, error) {
	space, err := image.Measure(filepath.Join(b.snapshotDir(id), imageFile))
	if err != nil {
		return backend.Snapshot{}, backend.Damaged("snapshot", id, imageFile, err)
	}
	source, err := backend.ParseID(m.Source)
	if err != nil {
		return backend.Snapshot{}, backend.Damaged("snapshot", id, snapshotFile, err)
	}
	return backend.Snapshot{
		ID: id, Name: m.Name, Source: source, SizeBytes: space.Size, LeastBytes: m.Least, Created: m.Created,
		Group: m.Group,
	}, nil
}

// ListSnapshots implements backend.Snapshotter.
func (b *Backend) ListSnapshots(context.Context) ([]backend.ID, error) {
	ids, err := idsIn(b.snapshots)
	if err != nil {
		return nil, err
	}
	groups, err := idsIn(b.groups)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		members, err := idsIn(b.groupDir(group))
		if err != nil {
			return nil, err
		}
		ids = append(ids, members...)
	}
	slices.SortFunc(ids, func(x, y backend.ID) int { return strings.Compare(x.String(), y.String()) })
	return ids, nil
}

// DeleteSnapshot implements backend.Snapshotter. Volumes that began with it
// have files of their own.
func (b *Backend) DeleteSnapshot(ctx context.Context, id backend.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.tasks.Running(taskOf(snapshotting, id)); err != nil {
		return err
	}
	dir := b.snapshotDir(id)
	if !exists(dir) {
		return nil
	}
	if parent := filepath.Dir(dir); parent != b.snapshots {
		return fault.Invalid.Errorf("snapshot %q is part of group %q; delete the group", id, filepath.Base(parent))
	}
	entry := b.snapshotEntry(id)
	if err := b.discard(ctx, dir, snapshotFile); err != nil {
		return classify("delete snapshot "+id.String(), err)
	}
	b.promises.Remove(entry)
	return nil
}
