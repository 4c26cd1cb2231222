package loopfile

import (
	"context"
	"path/filepath"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
)

// Allocated implements backend.Surveyor: an image is sparse, and its holes are
// the parts that were never written to.
func (b *Backend) Allocated(ctx context.Context, id backend.ID, from int64, visit func(backend.Extent) error) error {
	source, err := b.openSnapshot(id)
	if err != nil {
		return err
	}
	defer source.Close()
	return classify("find the data of snapshot "+id.String(), source.VisitData(ctx, from, asExtents(visit)))
}

// Changed implements backend.Surveyor by comparing the images, so that no changes have to be
// tracked while a volume is used.
func (b *Backend) Changed(
	ctx context.Context,
	base, target backend.ID,
	from int64,
	visit func(backend.Extent) error,
) error {
	was, err := b.openSnapshot(base)
	if err != nil {
		return err
	}
	defer was.Close()
	is, err := b.openSnapshot(target)
	if err != nil {
		return err
	}
	defer is.Close()
	return classify(
		"compare snapshot "+target.String()+" with "+base.String(),
		is.VisitChanges(ctx, was, from, asExtents(visit)),
	)
}

func asExtents(visit func(backend.Extent) error) func(from, to int64) error {
	return func(from, to int64) error { return visit(backend.Extent{Offset: from, Length: to - from}) }
}

func (b *Backend) openSnapshot(id backend.ID) (*image.Source, error) {
	if _, err := b.readSnapshot(id); err != nil {
		return nil, err
	}
	source, err := image.Open(filepath.Join(b.snapshotDir(id), imageFile))
	if err != nil {
		return nil, backend.Damaged("snapshot", id, imageFile, err)
	}
	return source, nil
}
