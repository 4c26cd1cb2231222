package rbd

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/naming"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/record"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/parallel"
)

// groupSnap is the name of the one snapshot of each group.
const groupSnap = "snapshots"

func groupName(g handle.Object) string { return ours + g.Name + "." + g.Snap }

// CreateGroup snapshots several images at one point in time. RBD allows an image in only one group,
// so the images are in this group only during the call.
func (p Pool) CreateGroup(
	ctx context.Context,
	g handle.Object,
	r backend.GroupRequest,
	sources []handle.Object,
) (backend.Group, error) {
	takeName, err := naming.Claim(ctx, book{p}, g)
	if err != nil {
		return backend.Group{}, err
	}
	written := record.Snapshot{Name: r.Name, Group: r.ID.String()}
	err = parallel.Do(
		takeName,
		func() error { return p.writeGroupRecords(ctx, g, written, sources) },
	)
	if err != nil {
		return backend.Group{}, err
	}
	if err := p.snapTogether(ctx, g, sources); err != nil {
		return backend.Group{}, err
	}
	made := backend.Group{ID: r.ID, Name: r.Name}
	err = fill(&made, sources, func(source handle.Object) (backend.Snapshot, error) {
		return p.made(ctx, handle.Member(source, g), written)
	})
	return made, err
}

// snapTogether adds the images to the group and takes the snapshot.
func (p Pool) snapTogether(ctx context.Context, g handle.Object, sources []handle.Object) error {
	group := p.spec(groupName(g))
	if err := unlessThere(p.rbd(ctx, "group", "create", group)); err != nil {
		return err
	}
	// The group snapshot of an interrupted call is not of one point in time, or not complete.
	if err := unlessMissing(p.rbd(ctx, "group", "snap", "rm", group+"@"+groupSnap)); err != nil {
		return err
	}
	for _, source := range sources {
		if err := p.join(ctx, group, p.spec(ImageName(source))); err != nil {
			return err
		}
	}
	if _, err := p.rbd(ctx, "group", "snap", "create", group+"@"+groupSnap); err != nil {
		return err
	}
	return p.leave(ctx, group, sources)
}

// writeGroupRecords writes that of the whole to the first image when all have
// their own: nothing writes to one image beside something else that does.
func (p Pool) writeGroupRecords(
	ctx context.Context,
	g handle.Object,
	member record.Snapshot,
	sources []handle.Object,
) error {
	whole := record.Snapshot{Name: member.Name}
	for _, source := range sources {
		of, err := source.ID()
		if err != nil {
			return err
		}
		whole.Sources = append(whole.Sources, of.String())
	}
	err := parallel.Each(sources, func(_ int, source handle.Object) error {
		return p.writeSnapRecord(ctx, handle.Member(source, g), member)
	})
	if err != nil {
		return err
	}
	text, err := whole.Text()
	if err != nil {
		return err
	}
	return p.setMetadata(ctx, ImageName(g), groupKey+g.Snap, text)
}

// join adds an image to a group. One that an interrupted call left in another
// group of ours is taken out there.
func (p Pool) join(ctx context.Context, group, image string) error {
	_, err := p.rbd(ctx, "group", "image", "add", group, image)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	var groups []string
	if err := p.ask(ctx, &groups, "group", "ls", p.Place.Pool); err != nil {
		return err
	}
	for _, other := range groups {
		if !strings.HasPrefix(other, ours) {
			continue
		}
		if err := unlessMissing(p.rbd(ctx, "group", "image", "rm", p.spec(other), image)); err != nil {
			return err
		}
	}
	_, err = p.rbd(ctx, "group", "image", "add", group, image)
	if errors.Is(err, unix.EEXIST) {
		return fault.InUse.Errorf(
			"image %s is in an RBD group that another program made, and can be in one only; take it out there: %w",
			image,
			err,
		)
	}
	return err
}

func (p Pool) leave(ctx context.Context, group string, sources []handle.Object) error {
	for _, source := range sources {
		if err := unlessMissing(p.rbd(ctx, "group", "image", "rm", group, p.spec(ImageName(source)))); err != nil {
			return err
		}
	}
	return nil
}

// GetGroup describes a group; fault.NotFound for one that is not complete.
func (p Pool) GetGroup(ctx context.Context, g handle.Object) (backend.Group, error) {
	id, err := g.ID()
	if err != nil {
		return backend.Group{}, err
	}
	written, err := p.groupRecord(ctx, g)
	if err != nil {
		return backend.Group{}, err
	}
	sources, err := sourcesOf(written)
	if err != nil {
		return backend.Group{}, err
	}
	group := backend.Group{ID: id, Name: written.Name}
	err = parallel.Do(
		func() error { return p.mustBeComplete(ctx, g) },
		func() error {
			return fill(&group, sources, func(source handle.Object) (backend.Snapshot, error) {
				return p.GetSnapshot(ctx, handle.Member(source, g))
			})
		},
	)
	return group, err
}

func sourcesOf(group record.Snapshot) (sources []handle.Object, err error) {
	ids, err := group.SourceIDs()
	for _, id := range ids {
		source, err := handle.Of(id)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	return sources, err
}

// fill reads the members of a group.
func fill(group *backend.Group, sources []handle.Object, ask func(handle.Object) (backend.Snapshot, error)) error {
	group.Snapshots = make([]backend.Snapshot, len(sources))
	err := parallel.Each(sources, func(i int, source handle.Object) (err error) {
		group.Snapshots[i], err = ask(source)
		return err
	})
	for _, member := range group.Snapshots {
		group.Created = member.Created
	}
	return err
}

func (p Pool) mustBeComplete(ctx context.Context, g handle.Object) error {
	complete, err := p.isComplete(ctx, g)
	if err == nil && !complete {
		err = noGroup(g)
	}
	return err
}

// noGroup is the error for a group that does not exist or is not complete.
func noGroup(g handle.Object) error {
	id, _ := g.ID()
	return fault.NotFound.Errorf("group snapshot %.128q does not exist", id)
}

// groupRecord finds the record at the group's first image, which may be that
// of a deleted volume.
func (p Pool) groupRecord(ctx context.Context, g handle.Object) (record.Snapshot, error) {
	image, _, err := p.find(ctx, g)
	if fault.NotFound.Is(err) {
		return record.Snapshot{}, noGroup(g)
	}
	if err != nil {
		return record.Snapshot{}, err
	}
	id, err := g.ID()
	if err != nil {
		return record.Snapshot{}, err
	}
	text, err := p.metadata(ctx, image, groupKey+g.Snap)
	if err != nil {
		return record.Snapshot{}, err
	}
	return record.ReadSnapshot(id, text)
}

func (p Pool) isComplete(ctx context.Context, g handle.Object) (bool, error) {
	var snaps []struct {
		Name  string `json:"snapshot"`
		State string `json:"state"`
	}
	err := p.ask(ctx, &snaps, "group", "snap", "ls", p.spec(groupName(g)))
	if err != nil && !isMissing(err) {
		return false, err
	}
	for _, s := range snaps {
		if s.Name == groupSnap {
			return s.State == "ok" || s.State == "complete", nil
		}
	}
	return false, nil
}

// DeleteGroup removes a group and its snapshots.
func (p Pool) DeleteGroup(ctx context.Context, g handle.Object) error {
	written, err := p.groupRecord(ctx, g)
	if fault.NotFound.Is(err) {
		if err := p.removeGroup(ctx, g); err != nil {
			return err
		}
		return p.sweep(ctx)
	}
	if err != nil {
		return err
	}
	if err := p.forgetName(ctx, g); err != nil {
		return err
	}
	// The first image is the last to go: it has the record.
	places := map[string]handle.Object{}
	var images []string
	for _, text := range written.Sources {
		of, err := handle.Parse(text)
		if err != nil {
			return err
		}
		image, _, err := p.find(ctx, handle.Member(of, g))
		if fault.NotFound.Is(err) {
			continue
		}
		if err != nil {
			return err
		}
		places[image], images = handle.Member(of, g), append([]string{image}, images...)
	}
	if err := p.removeGroup(ctx, g); err != nil {
		return err
	}
	for _, image := range images {
		if err := p.forgetMember(ctx, image, places[image]); err != nil {
			return err
		}
	}
	return nil
}

func (p Pool) forgetMember(ctx context.Context, image string, member handle.Object) error {
	for _, key := range []string{snapPrefix + member.Snap, groupKey + member.Snap} {
		if err := p.removeMetadata(ctx, image, key); err != nil {
			return err
		}
	}
	return p.disposeWithoutSnaps(ctx, image)
}

func (p Pool) removeGroup(ctx context.Context, g handle.Object) error {
	group := p.spec(groupName(g))
	if err := unlessMissing(p.rbd(ctx, "group", "snap", "rm", group+"@"+groupSnap)); err != nil {
		return err
	}
	return unlessMissing(p.rbd(ctx, "group", "rm", group))
}

// copyMember makes an image of a snapshot that was made with a group. The
// programs cannot clone those; but they can import an image from one, which
// copies its data and leaves nothing shared.
//
// Leftovers of an earlier call are removed first: when an import fails, the program removes the
// image, which might then be one of another call.
func (p Pool) copyMember(ctx context.Context, b Blueprint, image string, s snap) error {
	if err := p.discardIncomplete(ctx, b.Object); err != nil {
		return err
	}
	target := p.spec(ImageName(b.Object))
	from, err := json.Marshal(map[string]any{
		"type": "native", "pool_name": p.Place.Pool, "image_name": image, "snap_id": s.ID,
	})
	if err != nil {
		return err
	}
	prepare := append(
		[]string{"migration", "prepare", "--import-only", "--source-spec=" + string(from), target},
		b.options()...)
	if _, err := p.rbd(ctx, prepare...); err != nil {
		return err
	}
	for _, step := range []string{"execute", "commit"} {
		if err := p.patiently(ctx, "migration", step, target, "--no-progress"); err != nil {
			return err
		}
	}
	// Older snapshots of the source come along.
	ctx = context.WithoutCancel(ctx)
	if _, err := p.rbd(ctx, "snap", "purge", target, "--no-progress"); err != nil {
		return err
	}
	return p.adopt(ctx, b, 0)
}
