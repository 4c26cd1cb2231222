package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// survey is a parsed request of the SnapshotMetadata service.
type survey struct {
	// snapshots are the ids: one, or the base and the target.
	snapshots []string
	from      int64
	// size is how many extents a message has at most.
	size int
}

func parseAllocated(r *csi.GetMetadataAllocatedRequest) (survey, error) {
	if r.GetSnapshotId() == "" {
		return survey{}, missing("snapshot_id")
	}
	return parseSurvey(r.GetStartingOffset(), r.GetMaxResults(), r.GetSnapshotId())
}

func parseDelta(r *csi.GetMetadataDeltaRequest) (survey, error) {
	switch {
	case r.GetBaseSnapshotId() == "":
		return survey{}, missing("base_snapshot_id")
	case r.GetTargetSnapshotId() == "":
		return survey{}, missing("target_snapshot_id")
	default:
		return parseSurvey(r.GetStartingOffset(), r.GetMaxResults(), r.GetBaseSnapshotId(), r.GetTargetSnapshotId())
	}
}

// parseSurvey parses the request; max_results of 0 means the default. An extent takes less of a
// message than an entry of a list, so the same limit is used.
func parseSurvey(from int64, maxResults int32, snapshots ...string) (survey, error) {
	switch {
	case maxResults < 0:
		return survey{}, fault.Invalid.Errorf("max_results %d: must not be negative", maxResults)
	case from < 0:
		return survey{}, fault.OutOfRange.Errorf("starting_offset %d: must not be negative", from)
	}
	size := int(maxResults)
	if size == 0 || size > maxPage {
		size = maxPage
	}
	return survey{snapshots: snapshots, from: from, size: size}, nil
}

// surveyed looks the snapshots up, in the order of the request.
func (s *controllerService) surveyed(ctx context.Context, q survey) (found []backend.Snapshot, err error) {
	for _, id := range q.snapshots {
		one, err := s.getSnapshot(ctx, id)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	base, target := found[0], found[len(found)-1]
	if base.Source != target.Source {
		return nil, fault.Invalid.Errorf(
			"base_snapshot_id %q: is one of volume %q, and target_snapshot_id %q one of volume %q; name two of the "+
				"same volume",
			base.ID,
			base.Source,
			target.ID,
			target.Source,
		)
	}
	if q.from > target.SizeBytes {
		return nil, fault.OutOfRange.Errorf(
			"starting_offset %d: snapshot %q ends at %d", q.from, target.ID, target.SizeBytes,
		)
	}
	return found, nil
}

// survey sends the parts that the backend finds in the snapshots of surveyed.
func (s *controllerService) survey(
	ctx context.Context,
	q survey,
	found []backend.Snapshot,
	send func(capacity int64, part []backend.Extent) error,
) error {
	base, target := found[0], found[len(found)-1]
	pages := &surveyPages{from: q.from, end: target.SizeBytes, size: q.size, send: func(part []backend.Extent) error {
		return send(target.SizeBytes, part)
	}}
	var err error
	if len(found) == 1 {
		err = s.features.surveyor.Allocated(ctx, target.ID, q.from, pages.add)
	} else {
		err = s.features.surveyor.Changed(ctx, base.ID, target.ID, q.from, pages.add)
	}
	if err != nil {
		return err
	}
	return pages.finish()
}
