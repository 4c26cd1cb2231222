package rbd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/naming"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/record"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/parallel"
)

// snap is what rbd snap ls says of a snapshot.
type snap struct {
	ID        int64  `json:"id"`
	Name      string `json:"name"`
	Size      int64  `json:"size"`
	Timestamp string `json:"timestamp"`
	Namespace struct {
		Type  string `json:"type"`
		Group string `json:"group"`
	} `json:"namespace"`
}

func (s snap) isUser() bool    { return s.Namespace.Type == "user" }
func (s snap) isOfGroup() bool { return s.Namespace.Type == "group" }

// created reads the time; tools run in UTC.
func (s snap) created() time.Time {
	at, _ := time.Parse("Mon Jan _2 15:04:05 2006", s.Timestamp)
	return at
}

// is says whether the snapshot is the one of an object.
func (s snap) is(o handle.Object) bool {
	if o.IsMember() || o.IsGroup {
		return s.isOfGroup() && strings.HasPrefix(s.Namespace.Group, ours) && strings.HasSuffix(s.Namespace.Group, "."+o.Snap)
	}
	return s.isUser() && s.Name == o.Snap
}

// countLive counts the snapshots that keep a deleted volume: all that a caller
// made, and not those that only clones still read.
func countLive(snaps []snap) (live int) {
	for _, s := range snaps {
		if s.isOfGroup() || s.isUser() && !isCloneSnap(s.Name) {
			live++
		}
	}
	return live
}

func (p Pool) snaps(ctx context.Context, image string) (all []snap, err error) {
	return all, p.ask(ctx, &all, "snap", "ls", p.spec(image), "--all")
}

func noSuchSnapshot(o handle.Object) error {
	id, _ := o.ID()
	return fault.NotFound.Errorf("snapshot %.128q does not exist", id)
}

// find looks for a snapshot: in the volume's image first, and then in the images of deleted volumes
// of that name.
func (p Pool) find(ctx context.Context, o handle.Object) (image string, found snap, err error) {
	image = ImageName(o)
	found, err = p.findAt(ctx, image, o)
	if !fault.NotFound.Is(err) {
		return image, found, err
	}
	all, err := p.names(ctx)
	if isMissing(err) { // no such pool
		return "", snap{}, noSuchSnapshot(o)
	}
	if err != nil {
		return "", snap{}, err
	}
	for _, image := range all {
		if of, is := p.deletedObject(image); !is || of != o.Volume() {
			continue
		}
		found, err := p.findAt(ctx, image, o)
		if !fault.NotFound.Is(err) {
			return image, found, err
		}
	}
	return "", snap{}, noSuchSnapshot(o)
}

func (p Pool) findAt(ctx context.Context, image string, o handle.Object) (snap, error) {
	all, err := p.snaps(ctx, image)
	if err != nil {
		return snap{}, err
	}
	for _, s := range all {
		if s.is(o) {
			return s, nil
		}
	}
	return snap{}, noSuchSnapshot(o)
}

// CreateSnapshot makes a snapshot. Its name and its record are written before:
// the snapshot exists from the moment RBD has it.
func (p Pool) CreateSnapshot(
	ctx context.Context,
	o handle.Object,
	r backend.SnapshotRequest,
) (backend.Snapshot, error) {
	takeName, err := naming.Claim(ctx, book{p}, o)
	if err != nil {
		return backend.Snapshot{}, err
	}
	written := record.Snapshot{Name: r.Name}
	if err := parallel.Do(takeName, func() error { return p.writeSnapRecord(ctx, o, written) }); err != nil {
		return backend.Snapshot{}, err
	}
	image := ImageName(o)
	if err := unlessThere(p.rbd(ctx, "snap", "create", p.spec(image)+"@"+o.Snap)); err != nil {
		return backend.Snapshot{}, err
	}
	return p.made(ctx, o, written)
}

// made describes a snapshot that was made of a live image just now, with the
// record that was written for it.
func (p Pool) made(ctx context.Context, o handle.Object, written record.Snapshot) (backend.Snapshot, error) {
	found, err := p.findAt(ctx, ImageName(o), o)
	if err != nil {
		return backend.Snapshot{}, err
	}
	return found.describe(o, written)
}

func (p Pool) writeSnapRecord(ctx context.Context, o handle.Object, s record.Snapshot) error {
	text, err := s.Text()
	if err != nil {
		return err
	}
	return p.setMetadata(ctx, ImageName(o), snapPrefix+o.Snap, text)
}

// GetSnapshot describes a snapshot.
func (p Pool) GetSnapshot(ctx context.Context, o handle.Object) (backend.Snapshot, error) {
	image, found, err := p.find(ctx, o)
	if err != nil {
		return backend.Snapshot{}, err
	}
	return p.describe(ctx, o, image, found)
}

func (p Pool) describe(ctx context.Context, o handle.Object, image string, found snap) (backend.Snapshot, error) {
	id, err := o.ID()
	if err != nil {
		return backend.Snapshot{}, err
	}
	text, err := p.metadata(ctx, image, snapPrefix+o.Snap)
	if err != nil {
		return backend.Snapshot{}, fault.Internal.Errorf("the record of snapshot %q: %w", id, err)
	}
	written, err := record.ReadSnapshot(id, text)
	if err != nil {
		return backend.Snapshot{}, err
	}
	return found.describe(o, written)
}

func (s snap) describe(o handle.Object, written record.Snapshot) (backend.Snapshot, error) {
	id, err := o.ID()
	if err != nil {
		return backend.Snapshot{}, err
	}
	source, err := o.Volume().ID()
	return backend.Snapshot{
		ID: id, Name: written.Name, Source: source, SizeBytes: s.Size, Created: s.created(), Ready: true,
		Group: written.Group,
	}, err
}

// DeleteSnapshot removes a snapshot, and the rest of a deleted volume with the
// last one.
func (p Pool) DeleteSnapshot(ctx context.Context, o handle.Object) error {
	image, _, err := p.find(ctx, o)
	if fault.NotFound.Is(err) {
		return p.sweep(ctx)
	}
	if err != nil {
		return err
	}
	err = parallel.Do(
		func() error { return p.forgetName(ctx, o) },
		func() error { return p.removeSnap(ctx, image, o.Snap) },
	)
	if err != nil {
		return err
	}
	if err := p.removeMetadata(ctx, image, snapPrefix+o.Snap); err != nil {
		return err
	}
	return p.disposeWithoutSnaps(ctx, image)
}

// removeSnap removes a snapshot of an image; RBD keeps the data that clones read.
func (p Pool) removeSnap(ctx context.Context, image, name string) error {
	return unlessMissing(p.rbd(ctx, "snap", "rm", p.spec(image)+"@"+name, "--no-progress"))
}

// disposeWithoutSnaps removes a deleted volume that has no snapshot any more.
func (p Pool) disposeWithoutSnaps(ctx context.Context, image string) error {
	if _, isDeleted := p.deletedObject(image); !isDeleted {
		return nil
	}
	all, err := p.snaps(ctx, image)
	if err != nil || countLive(all) > 0 {
		return err
	}
	i, err := p.info(ctx, image)
	if err != nil {
		return err
	}
	return p.dispose(ctx, image, i)
}

// sweep removes what interrupted deletions of snapshots left: deleted volumes
// without any. It is the repeated call that finds the snapshot gone.
func (p Pool) sweep(ctx context.Context) error {
	images, err := p.names(ctx)
	if isMissing(err) { // no such pool
		return nil
	}
	if err != nil {
		return err
	}
	for _, image := range images {
		if err := p.disposeWithoutSnaps(ctx, image); err != nil && !isMissing(err) {
			return err
		}
	}
	return nil
}

// ListSnapshots gives the ids of the snapshots in the pool. It asks every
// image.
func (p Pool) ListSnapshots(ctx context.Context) (ids []backend.ID, err error) {
	images, err := p.names(ctx)
	if err != nil {
		return nil, err
	}
	for _, image := range images {
		of, live := p.object(image)
		if !live {
			var gone bool
			if of, gone = p.deletedObject(image); !gone {
				continue
			}
		}
		some, err := p.snapshotsOf(ctx, image, of)
		if err != nil {
			return nil, err
		}
		ids = append(ids, some...)
	}
	slices.SortFunc(ids, func(a, b backend.ID) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(ids), nil
}

func (p Pool) snapshotsOf(ctx context.Context, image string, of handle.Object) (ids []backend.ID, err error) {
	all, err := p.snaps(ctx, image)
	if isMissing(err) { // it went meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		name := s.Name
		if s.isOfGroup() {
			name = s.Namespace.Group[strings.LastIndex(s.Namespace.Group, ".")+1:]
		}
		of.Snap = name
		if !handle.IsSnap(name) || !s.is(of) {
			continue
		}
		id, err := of.ID()
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
