package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// expand refuses to shrink: a volume larger than the limit stays as it is.
func (s *controllerService) expand(ctx context.Context, g growth) (backend.Expansion, error) {
	have, err := s.get(ctx, g.volumeID)
	if err != nil {
		return backend.Expansion{}, err
	}
	if g.size.Limit != 0 && have.CapacityBytes > g.size.Limit {
		return backend.Expansion{}, fault.OutOfRange.Errorf(
			"capacity_range.limit_bytes %d: volume %q has %d bytes already, and volumes cannot shrink",
			g.size.Limit,
			have.ID,
			have.CapacityBytes,
		)
	}
	if zones := s.features.zones; zones.exist() && g.size.Required > have.CapacityBytes {
		if err := zones.store.Resize(have.ID, g.size.Required); err != nil {
			return backend.Expansion{}, err
		}
	}
	return s.features.expander.Expand(ctx, have.ID, g.size)
}

// modify checks all parameters before it changes one ("ControllerModifyVolume
// Errors": INVALID_ARGUMENT, and nothing changed).
func (s *controllerService) modify(ctx context.Context, c change) error {
	have, err := s.get(ctx, c.volumeID)
	if err != nil {
		return err
	}
	if err := s.features.modifier.CheckMutable(c.mutable); err != nil {
		return err
	}
	if len(c.mutable) == 0 {
		return nil
	}
	return s.features.modifier.Modify(ctx, have.ID, c.mutable)
}

// createSnapshot is idempotent by name, since the id is derived from the name. The source is
// needed only for a new snapshot: a repeated request succeeds after the source was deleted.
func (s *controllerService) createSnapshot(ctx context.Context, r backend.SnapshotRequest) (backend.Snapshot, error) {
	have, err := s.features.snapshotter.GetSnapshot(ctx, r.ID)
	if fault.NotFound.Is(err) {
		source, err := s.backend.Get(ctx, r.Source)
		if err != nil {
			return backend.Snapshot{}, err
		}
		r.SourceBytes, r.SourceLeast = source.CapacityBytes, source.LeastBytes
		return s.features.snapshotter.CreateSnapshot(ctx, r)
	}
	if err != nil {
		return backend.Snapshot{}, err
	}
	if have.Name != r.Name || have.Source != r.Source {
		return backend.Snapshot{}, fault.Incompatible.Errorf(
			"snapshot %q exists and is one of volume %q, not %q; use another name or delete the snapshot",
			have.Name,
			have.Source,
			r.Source,
		)
	}
	return have, nil
}

// deleteSnapshot treats an id that no snapshot can have like a deleted snapshot. A damaged
// snapshot, whose group is not known, can be deleted.
func (s *controllerService) deleteSnapshot(ctx context.Context, snapshotID string) error {
	id, err := backend.ParseID(snapshotID)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("Nothing to delete: this driver makes no such ids")
		return nil
	}
	have, err := s.features.snapshotter.GetSnapshot(ctx, id)
	if err == nil && have.Group != "" {
		return fault.Invalid.Errorf(
			"snapshot_id %q: the snapshot is part of group %q; delete the group", id, have.Group,
		)
	}
	return s.features.snapshotter.DeleteSnapshot(ctx, id)
}

func (s *controllerService) getSnapshot(ctx context.Context, snapshotID string) (backend.Snapshot, error) {
	id, err := backend.ParseID(snapshotID)
	if err != nil {
		return backend.Snapshot{}, noSuchSnapshot(snapshotID)
	}
	return s.features.snapshotter.GetSnapshot(ctx, id)
}

// snapshotFilter is the filter of ListSnapshots; an empty field matches all.
type snapshotFilter struct{ id, source string }

func (f snapshotFilter) wants(s backend.Snapshot) bool {
	return f.source == "" || f.source == s.Source.String()
}

// listSnapshots leaves a damaged snapshot out, unlike list a damaged volume: a
// Snapshot message without its source says something that is not true.
func (s *controllerService) listSnapshots(
	ctx context.Context,
	p page,
	filter snapshotFilter,
) (found []backend.Snapshot, next string, err error) {
	ids, err := s.snapshotIDs(ctx, filter)
	if err != nil {
		return nil, "", err
	}
	for _, id := range p.rest(ids) {
		snapshot, err := s.features.snapshotter.GetSnapshot(ctx, id)
		if fault.NotFound.Is(err) {
			continue
		}
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(
				err, "Listing snapshots without one that is damaged", "id", id.String(),
			)
			continue
		}
		if !filter.wants(snapshot) {
			continue
		}
		if len(found) == p.size {
			return found, tokenAfter(found[p.size-1].ID), nil
		}
		found = append(found, snapshot)
	}
	return found, "", nil
}

// snapshotIDs returns the ids that match the filter. It lists nothing when the filter has an id.
func (s *controllerService) snapshotIDs(ctx context.Context, filter snapshotFilter) ([]backend.ID, error) {
	if filter.id == "" {
		return s.features.snapshotter.ListSnapshots(ctx)
	}
	id, err := backend.ParseID(filter.id)
	if err != nil {
		return nil, nil
	}
	return []backend.ID{id}, nil
}

// createGroup is idempotent by name. Its sources must exist, whatever the
// backend would say about them; see createSnapshot.
func (s *controllerService) createGroup(ctx context.Context, r backend.GroupRequest) (backend.Group, error) {
	have, err := s.features.grouper.GetGroup(ctx, r.ID)
	if fault.NotFound.Is(err) {
		for _, source := range r.Sources {
			volume, err := s.backend.Get(ctx, source)
			if err != nil {
				return backend.Group{}, err
			}
			r.SourceLeast = append(r.SourceLeast, volume.LeastBytes)
		}
		return s.features.grouper.CreateGroup(ctx, r)
	}
	if err != nil {
		return backend.Group{}, err
	}
	if sources := sourcesOf(have); have.Name != r.Name || !slices.Equal(sources, r.Sources) {
		return backend.Group{}, fault.Incompatible.Errorf(
			"group snapshot %q exists and is one of the volumes %s, not %s; use another name or delete it",
			have.Name,
			describeIDs(sources),
			describeIDs(r.Sources),
		)
	}
	return have, nil
}

func sourcesOf(g backend.Group) (sources []backend.ID) {
	for _, snapshot := range g.Snapshots {
		sources = append(sources, snapshot.Source)
	}
	slices.SortFunc(sources, compareIDs)
	return sources
}

func describeIDs(ids []backend.ID) string {
	texts := make([]string, 0, len(ids))
	for _, id := range ids {
		texts = append(texts, fmt.Sprintf("%q", id))
	}
	return strings.Join(texts, " ")
}

func (s *controllerService) getGroup(ctx context.Context, q groupQuestion) (backend.Group, error) {
	id, err := backend.ParseID(q.groupID)
	if err != nil {
		return backend.Group{}, fault.NotFound.Errorf("group snapshot %.128q does not exist", q.groupID)
	}
	have, err := s.features.grouper.GetGroup(ctx, id)
	if err != nil {
		return backend.Group{}, err
	}
	return have, sameSnapshots(have, q.snapshotIDs)
}

// deleteGroup refuses a list of snapshots that is not the group's: another caller
// has mixed up two groups.
func (s *controllerService) deleteGroup(ctx context.Context, q groupQuestion) error {
	id, err := backend.ParseID(q.groupID)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("Nothing to delete: this driver makes no such ids")
		return nil
	}
	have, err := s.features.grouper.GetGroup(ctx, id)
	if err == nil {
		if err := sameSnapshots(have, q.snapshotIDs); err != nil {
			return err
		}
	}
	return s.features.grouper.DeleteGroup(ctx, id)
}

// sameSnapshots accepts a caller that names none.
func sameSnapshots(have backend.Group, named []string) error {
	if len(named) == 0 {
		return nil
	}
	var members []string
	for _, snapshot := range have.Snapshots {
		members = append(members, snapshot.ID.String())
	}
	slices.Sort(members)
	named = slices.Sorted(slices.Values(named))
	if !slices.Equal(members, named) {
		return fault.Invalid.Errorf(
			"snapshot_ids %q: group snapshot %q has %q; name these or none", named, have.ID, members,
		)
	}
	return nil
}
